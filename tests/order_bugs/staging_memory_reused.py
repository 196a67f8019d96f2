"""A pinned staging buffer takes the next result while the last upload still reads it."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
upload, download = pm.Stream(device), pm.Stream(device)
memory, pinned = pm.DeviceMemoryResource(device), pm.PinnedMemoryResource(device)
staging, data, result = pinned.allocate(NBYTES), memory.allocate(NBYTES), memory.allocate(NBYTES)
staging.record_stream(download)

with pm.check():
    data.copy_from(staging, stream=upload)  # first
    if FIXED:
        upload.synchronize()
    staging.copy_from(result, stream=download)  # second
