"""A copy is written on one stream and read on another, which does not wait for it."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
first, second = pm.Stream(device), pm.Stream(device)
memory, pinned = pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)
staging, data, copy = pinned.allocate(NBYTES), memory.allocate(NBYTES), memory.allocate(NBYTES)
data.record_stream(second)

with pm.check():
    written = data.copy_from(staging, stream=first)  # first
    if FIXED:
        second.wait(written)
    copy.copy_from(data, stream=second)  # second
