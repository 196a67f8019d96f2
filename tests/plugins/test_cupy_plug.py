"""CuPy itself takes its memory from portamem."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest
from helpers import partners
from helpers.process import python_output

START = """
import gc, sys, warnings
warnings.simplefilter("ignore")
import cupy
import portamem as pm
from portamem.plugins import cupy as plug

backend = getattr(pm, "hip" if cupy.cuda.runtime.is_hip else "cuda")
MIB = 1 << 20

def make_pool(**options):
    return backend.PoolMemoryResource(backend.DeviceMemoryResource(), host_access=False, **options)
"""


def is_built_for(cupy: Any, vendor: str) -> bool:
    return bool(cupy.cuda.runtime.is_hip == (vendor == "hip"))


@pytest.fixture(autouse=True)
def gpu(pm: ModuleType, device: Any) -> None:
    partners.of_the_gpu("cupy", "CuPy", pm, device, is_built_for)


def printed(code: str) -> list[str]:
    return python_output(START + code, PYTHONPATH=os.environ.get("PYTHONPATH")).split()


def test_arrays_are_the_resources_own() -> None:
    assert printed(
        """
pool = make_pool()
before = cupy.cuda.get_allocator()
with plug.use(pool) as installed:
    x = cupy.arange(1000, dtype="f8")
    assert pool.live_bytes == 8000, pool.live_bytes
    assert pool.size_of(x.data.ptr) == 8000
    assert float((x + x).sum()) == 999000
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = cupy.ones(MIB, dtype="u1")
        assert int(y.sum()) == MIB
    assert installed.is_active
assert cupy.cuda.get_allocator() == before
z = cupy.zeros(MIB)
assert pool.live_bytes < 8 * MIB
del x, y
gc.collect()
cupy.cuda.runtime.deviceSynchronize()
print(pool.live_bytes)
"""
    ) == ["0"]


def test_no_memory_is_both_libraries_error() -> None:
    assert printed(
        """
pool = make_pool(limit=64 * MIB)
with plug.use(pool):
    for error in (cupy.cuda.memory.OutOfMemoryError, pm.OutOfMemoryError, MemoryError):
        try:
            cupy.empty(256 * MIB, dtype="u1")
        except error as refused:
            print(type(refused).__module__)
    x = cupy.ones(1000)
    print(int(x.sum()), pool.live_bytes)
""",
    ) == ["portamem.plugins.cupy"] * 3 + ["1000", "8000"]


def test_the_current_resource_of_each_allocation() -> None:
    assert printed(
        """
pool = make_pool()
with plug.use():
    with backend.using(pool):
        x = cupy.ones(1000)
    y = cupy.ones(1000)
    assert pool.live_bytes == 8000
    assert backend.default_resource().live_bytes >= 8000
del x
print(pool.live_bytes, int(y.sum()))
"""
    ) == ["0", "1000"]


def test_a_later_allocator_is_not_taken_out() -> None:
    assert printed(
        """
installed = plug.use(make_pool())
cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)
try:
    installed.undo()
except RuntimeError as refused:
    print("another" in str(refused))
"""
    ) == ["True"]


def test_pinned_memory() -> None:
    assert printed(
        """
import numpy
import cupyx
pinned = backend.PoolMemoryResource(backend.PinnedMemoryResource())
with plug.use_pinned(pinned):
    x = cupyx.zeros_pinned((1000,), dtype="f8")
    assert pinned.live_bytes >= 8000, pinned.live_bytes
    x[:] = 3
    y = cupy.asarray(x)
    assert float(y.sum()) == 3000
del x
gc.collect()
cupyx.zeros_pinned((10,))
print(pinned.live_bytes)
"""
    ) == ["0"]


def test_threads_on_streams_of_their_own() -> None:
    assert printed(
        """
from threading import Thread
pool = make_pool()
plug.use(pool)
wrong = []
def work(seed):
    # Without kernels: CuPy 14 itself hangs where threads compile their first ones at once.
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for turn in range(200):
            nbytes = 1 + (turn * 7919 + seed) % 40000
            x = cupy.empty(nbytes, dtype="u1")
            x.data.memset_async(seed, nbytes, stream)
            if (x.get() != seed).any():
                wrong.append((seed, turn))
threads = [Thread(target=work, args=(seed,)) for seed in range(8)]
[each.start() for each in threads]
[each.join() for each in threads]
gc.collect()
print(len(wrong), pool.live_buffers)
"""
    ) == ["0", "0"]


def test_exit_with_arrays_out() -> None:
    assert printed("plug.use(make_pool())\nkept = [cupy.ones(1000) for _ in range(10)]\nprint('end')") == ["end"]
