"""The reader waits for the wrong one of two events: that of the other half."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
upper, lower, reader = pm.Stream(device), pm.Stream(device), pm.Stream(device)
memory = pm.DeviceMemoryResource(device)
data, result = memory.allocate(2 * NBYTES), memory.allocate(NBYTES)
data.record_stream(reader)

with pm.check():
    upper_done = data[:NBYTES].fill(1, stream=upper)
    lower_done = data[NBYTES:].fill(2, stream=lower)  # first
    reader.wait(lower_done if FIXED else upper_done)
    result.copy_from(data[NBYTES:], stream=reader)  # second
