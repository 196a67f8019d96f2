"""An address outlives its memory: it is used after the free."""

import contextlib
import sys

import portamem.host as pm
from portamem import Error

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
stream = pm.Stream(device)
pool = pm.AsyncMemoryResource(device)

with pm.check(), pool.allocate(NBYTES, stream=stream) as other:
    memory = pool.allocate(NBYTES, stream=stream)
    kept = pm.Buffer.from_handle(memory.handle, NBYTES, stream=stream)
    if FIXED:
        kept.fill(1, stream=stream)
    memory.close()  # first
    if not FIXED:
        with contextlib.suppress(Error):
            kept.fill(1, stream=stream)  # second
