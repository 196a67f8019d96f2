"""The event is recorded on a stream that has nothing to do with the work."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
working, idle, reader = pm.Stream(device), pm.Stream(device), pm.Stream(device)
memory = pm.DeviceMemoryResource(device)
data, result = memory.allocate(NBYTES), memory.allocate(NBYTES)
data.record_stream(reader)

with pm.check():
    data.fill(1, stream=working)  # first
    done = (working if FIXED else idle).record()
    reader.wait(done)
    result.copy_from(data, stream=reader)  # second
