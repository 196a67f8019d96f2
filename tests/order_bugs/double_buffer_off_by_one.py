"""Each half of a double buffer is waited for one round too late."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
upload, compute = pm.Stream(device), pm.Stream(device)
memory, pinned = pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)
source, result = pinned.allocate(NBYTES), memory.allocate(NBYTES)
halves = [memory.allocate(NBYTES), memory.allocate(NBYTES)]
for half in halves:
    half.record_stream(compute)

with pm.check():
    consumed = []
    for step in range(6):
        half = halves[step % 2]
        if step >= 2:
            upload.wait(consumed[step - 2 if FIXED else step - 3])
        compute.wait(half.copy_from(source, stream=upload))  # second
        consumed.append(result.copy_from(half, stream=compute))  # first
