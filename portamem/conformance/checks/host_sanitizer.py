# SPDX-License-Identifier: MIT
"""Shows that AddressSanitizer knows which bytes of pools are in use, in processes into which it is loaded first."""

from __future__ import annotations

import ctypes
import ctypes.util

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_equal
from portamem.conformance.kit.outcome import NotShown
from portamem.conformance.kit.program import Ended
from portamem.conformance.kit.together import together

TOUCH = """
    import ctypes
    print("begun", flush=True)
    stream = pm.Stream(0)
    with getattr(pm, sys.argv[1] + "MemoryResource")(0) as upstream, pm.PoolMemoryResource(upstream) as pool:
        live, gone = pool.allocate(1000, stream=stream), pool.allocate(1000, stream=stream)
        touches = {"live": live.handle + 999, "behind": live.handle + 1000, "gone": gone.handle}
        ctypes.memset(gone.handle, 1, 1000)
        gone.close()
        stream.synchronize()
        pool.allocate(5000, stream=stream).close()  # what has run since is noticed
        print(pool.is_checked, flush=True)
        ctypes.memset(touches[sys.argv[2]], 1, 1)
        print("touched", flush=True)
        live.close()
"""


def _sanitizer() -> dict[str, str]:
    """Variables that a program's environment has to have for AddressSanitizer to be there."""
    if hasattr(ctypes.CDLL(None), "__asan_poison_memory_region"):
        return {}  # it is in this process, and in those that it starts
    library = ctypes.util.find_library("asan")
    if library is None:
        raise NotShown("the compilers' AddressSanitizer is not here")
    # The library of C++ with it: it looks for what throws when it begins.
    return {"LD_PRELOAD": f"{library} libstdc++.so.6", "ASAN_OPTIONS": "detect_leaks=0"}


@check("HOST-30")
def a_sanitizer_knows_what_is_in_use(env: Env) -> None:
    environment = _sanitizer()
    scenes = [(kind, touch) for kind in ("Device", "Pinned") for touch in ("live", "behind", "gone")]

    def run(scene: tuple[str, str]) -> Ended:
        return env.run(TOUCH, *scene, PORTAMEM_POOL=None, PORTAMEM_DEBUG=None, PORTAMEM_HOST_GUARD=None, **environment)

    for (kind, touch), ended in together(run, scenes):
        what = f"a touch of {touch} memory of a pool over {kind} memory"
        if not ended.stdout:  # not found, or its own addresses were taken: some kernels put others there
            raise NotShown(f"no program begins under AddressSanitizer here: {ended.stderr.strip()[:200]}")
        expect_equal(ended.stdout.split()[:2], ["begun", "True"], f"is_checked, before {what} ({ended.how})")
        if touch == "live":
            expect_equal(ended.stdout.split()[2:], ["touched"], f"what was said about {what}")
            expect_equal(ended.status, 0, f"the exit status after {what}")
        else:
            expect("touched" not in ended.stdout and ended.status != 0, f"{what}: the program {ended.how}")
            expect("AddressSanitizer" in ended.stderr, f"{what} is not reported: {ended.stderr[:300]}")
