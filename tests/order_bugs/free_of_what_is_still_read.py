"""Memory goes back to its pool while another stream reads it, by an address that the program did not declare."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
home, away = pm.Stream(device), pm.Stream(device)
pool, memory = pm.AsyncMemoryResource(device), pm.DeviceMemoryResource(device)
data, result = pool.allocate(NBYTES, stream=home), memory.allocate(NBYTES)
home.synchronize()

with pm.check():
    undeclared = pm.Buffer.from_handle(data.handle, NBYTES, stream=away)
    result.copy_from(undeclared, stream=away)  # first
    if FIXED:
        data.record_stream(away)
    data.close()  # second
