"""Memory of a pool is used on another stream, which does not wait for the allocation."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
home, away = pm.Stream(device), pm.Stream(device)
pool = pm.AsyncMemoryResource(device)

with pm.check():
    memory = pool.allocate(NBYTES, stream=home)  # first
    if FIXED:
        away.wait(home.record())
    same = pm.Buffer.from_handle(memory.handle, NBYTES, owner=memory, stream=away)
    same.fill(0, stream=away)  # second
