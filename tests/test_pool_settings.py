"""PORTAMEM_POOL and PORTAMEM_POOL_LIMIT: each test asks in processes of its own, where the settings are read once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from helpers.process import python_output, run_python

UNLIMITED = 2**64 - 1
TOTAL = 80 << 30

ASK = """
    import ctypes, importlib.util, json, pathlib, sys

    folder = pathlib.Path(importlib.util.find_spec("portamem._host").origin).parent
    library = ctypes.CDLL(str(next(folder.glob("libportamem.so.*"))))
    library.portamem_pool_limit.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
    library.portamem_pool_limit.restype = ctypes.c_uint64
    library.portamem_pool_settings_error.restype = ctypes.c_char_p

    def ask(uuid, total):
        limit = library.portamem_pool_limit(uuid.encode(), total)
        answer = [library.portamem_pool_passthrough(), limit, library.portamem_pool_settings_error().decode()]
        print(json.dumps(answer), flush=True)

    ask(sys.argv[1], int(sys.argv[2]))
"""


@pytest.fixture
def uuid() -> Iterator[str]:
    name = f"test-{os.getpid()}"
    yield name
    Path(f"/dev/shm/portamem-{os.geteuid()}/{name}").unlink(missing_ok=True)


def answers(uuid: str, pool: str | None = None, limit: str | None = None) -> tuple[int, int, str]:
    done = run_python(ASK, uuid, str(TOTAL), PORTAMEM_POOL=pool, PORTAMEM_POOL_LIMIT=limit)
    assert done.returncode == 0, done.stderr
    passthrough, nbytes, error = json.loads(done.stdout)
    return passthrough, nbytes, error


@pytest.mark.parametrize(
    ("pool", "limit", "expected"),
    [
        (None, None, (0, UNLIMITED)),
        ("", "", (0, UNLIMITED)),
        ("off", None, (1, UNLIMITED)),
        ("on", "8GiB", (0, 8 << 30)),
        ("on", "1.5 GB", (0, 1_500_000_000)),
        (None, "70%", (0, TOTAL * 70 // 100)),
        (None, "12.5 %", (0, TOTAL // 8)),
        (None, "100%", (0, TOTAL)),
    ],
)
def test_what_they_mean(uuid: str, pool: str | None, limit: str | None, expected: tuple[int, int]) -> None:
    assert answers(uuid, pool, limit) == (*expected, "")


@pytest.mark.parametrize(
    ("pool", "limit", "names"),
    [
        ("no", None, ("PORTAMEM_POOL=no ", "on", "off")),
        (None, "plenty", ("PORTAMEM_POOL_LIMIT=plenty ", "8GiB", "70%")),
        (None, "0", ("PORTAMEM_POOL_LIMIT=0 ",)),
        (None, "170%", ("PORTAMEM_POOL_LIMIT=170% ", "100%")),
        ("off", "-1", ("PORTAMEM_POOL_LIMIT=-1 ",)),
    ],
)
def test_what_cannot_be_read_is_named(uuid: str, pool: str | None, limit: str | None, names: tuple[str, ...]) -> None:
    passthrough, nbytes, error = answers(uuid, pool, limit)
    assert (passthrough, nbytes) == (-1, 0)
    assert all(name in error for name in names), error


class Process:
    """One that asks whenever it is told to."""

    def __init__(self, uuid: str, limit: str) -> None:
        code = textwrap.dedent(ASK) + "\nfor line in sys.stdin: ask(sys.argv[1], int(sys.argv[2]))\n"
        self.child = subprocess.Popen(
            [sys.executable, "-c", code, uuid, str(TOTAL)],
            env={**os.environ, "PORTAMEM_POOL_LIMIT": limit},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self._answer()

    def _answer(self) -> int:
        assert self.child.stdout is not None
        return int(json.loads(self.child.stdout.readline())[1])

    def ask(self) -> int:
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self.child.kill()
        self.child.communicate()


def test_a_percentage_is_shared_by_those_who_live(uuid: str) -> None:
    half = TOTAL // 2
    processes = [Process(uuid, "50%") for _ in range(3)]
    try:
        assert [process.first for process in processes] == [half, half // 2, half // 3]
        assert [process.ask() for process in processes] == [half // 3] * 3
        processes[1].kill()
        assert processes[0].ask() == half // 2
        absolute = Process(uuid, "1GiB")  # takes no part
        processes.append(absolute)
        assert absolute.first == 1 << 30
        assert processes[2].ask() == half // 2
        elsewhere = Process(uuid + "x", "50%")
        processes.append(elsewhere)
        assert elsewhere.first == half
    finally:
        for process in processes:
            process.kill()
        Path(f"/dev/shm/portamem-{os.geteuid()}/{uuid}x").unlink(missing_ok=True)


def pooled(pm: ModuleType, code: str, **settings: str | None) -> str:
    """The output of a program that has a pool over plain device memory, and a stream."""
    head = f"""
import portamem.{pm.backend} as pm
upstream = pm.DeviceMemoryResource(0)
stream = pm.Stream(0)
"""
    unset: dict[str, str | None] = {"PORTAMEM_POOL": None, "PORTAMEM_POOL_LIMIT": None}
    return python_output(head + textwrap.dedent(code), **{**unset, **settings}).strip()


def test_off_each_allocation_is_the_upstreams(pm: ModuleType, device: object) -> None:
    code = """
        pool = pm.PoolMemoryResource(upstream)
        counts = []
        for _ in range(3):
            with pool.allocate(1000, stream=stream) as first, pool.allocate("1 MiB", stream=stream) as second:
                first.fill(1, stream=stream)
                second.fill(2, stream=stream)
                counts.append(upstream.live_buffers)
            counts.append(upstream.live_buffers)
        stats = pool.stats()
        print(counts, pool.live_buffers, stats.hits, stats.misses, stats.used, stats.reserved)
    """
    assert pooled(pm, code, PORTAMEM_POOL="off") == "[2, 0, 2, 0, 2, 0] 0 0 6 0 0"
    kept = pooled(pm, code, PORTAMEM_POOL="on")
    if pm.DeviceMemoryResource(device).is_host_accessible:  # found again only when its work has run
        assert " 0 " in kept, kept
    else:
        assert kept.startswith("[1, 1, 1, 1, 1, 1] 0 "), kept


def test_a_limit_is_that_of_pools_of_device_memory(pm: ModuleType, device: object) -> None:
    code = """
        import portamem
        pools = pm.PoolMemoryResource(upstream), pm.PoolMemoryResource(upstream, limit="64 MiB")
        pinned = pm.PoolMemoryResource(pm.PinnedMemoryResource(0))
        print(*(pool.limit for pool in (*pools, pinned)), end=" ")
        for pool in (*pools, pinned):
            try:
                pool.allocate("20 MiB", stream=stream).close()
                print("fits", end=" ")
            except portamem.OutOfMemoryError as error:
                print("limit of 16777216 bytes" in str(error), end=" ")
    """
    assert pooled(pm, code, PORTAMEM_POOL_LIMIT="16MiB") == "16777216 67108864 None True fits fits"


def test_a_setting_that_cannot_be_read_is_told_by_the_first_pool(pm: ModuleType, device: object) -> None:
    code = """
        upstream.allocate(100).close()
        try:
            pm.PoolMemoryResource(upstream)
        except ValueError as error:
            print(error)
    """
    assert pooled(pm, code, PORTAMEM_POOL="never") == "PORTAMEM_POOL=never is neither on nor off"
    assert pooled(pm, code, PORTAMEM_POOL_LIMIT="7O%").startswith("PORTAMEM_POOL_LIMIT=7O% is neither a size")
