"""The event is recorded before the work that it should mark."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
first, second = pm.Stream(device), pm.Stream(device)
memory = pm.DeviceMemoryResource(device)
data, result = memory.allocate(NBYTES), memory.allocate(NBYTES)
data.record_stream(second)

with pm.check(), pm.Event(device) as filled:
    if not FIXED:
        filled.record(first)
    data.fill(1, stream=first)  # first
    if FIXED:
        filled.record(first)
    second.wait(filled)
    result.copy_from(data, stream=second)  # second
