"""A non-blocking stream reads what the default stream writes: it does not wait for that one."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
stream = pm.Stream(device, nonblocking=not FIXED)
memory = pm.DeviceMemoryResource(device)
data, result = memory.allocate(NBYTES), memory.allocate(NBYTES)
data.record_stream(stream)
result.record_stream(stream)

with pm.check():
    data.fill(1, stream=device.default_stream)  # first
    result.copy_from(data, stream=stream)  # second
