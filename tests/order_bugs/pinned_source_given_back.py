"""The pinned source of a copy is freed while the copy reads it, by an address that the program did not declare."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
stream = pm.Stream(device)
memory, pinned = pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)
source, data = pinned.allocate(NBYTES), memory.allocate(NBYTES)

with pm.check():
    undeclared = pm.Buffer.from_handle(source.handle, NBYTES, stream=stream)
    copied = data.copy_from(undeclared, stream=stream)  # first
    if FIXED:
        copied.synchronize()
    source.close()  # second
