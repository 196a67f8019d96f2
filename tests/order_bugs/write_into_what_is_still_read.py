"""The next input is written over the present one while another stream still reads it."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
reader, writer = pm.Stream(device), pm.Stream(device)
memory = pm.DeviceMemoryResource(device)
data, result = memory.allocate(NBYTES), memory.allocate(NBYTES)
data.record_stream(writer)

with pm.check():
    read = result.copy_from(data, stream=reader)  # first
    if FIXED:
        writer.wait(read)
    data.fill(1, stream=writer)  # second
