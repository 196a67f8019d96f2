# SPDX-License-Identifier: MIT
"""No resource, of whatever kind, takes back a wrong address: it is refused in words, and nothing has changed then."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.memory import pattern, read_back, write
from helpers.process import run_python
from helpers.waiting import close_when_empty

import portamem
from portamem.conformance.kit import kinds

NBYTES = 100_000
EVERY = {kind.name: kind for kind in kinds.selected("every resource") if not (kind.upstream and kind.upstream.cls)}


@pytest.fixture(params=list(EVERY))
def every_kind(request: pytest.FixtureRequest, device: Any) -> Any:
    kind = EVERY[request.param]
    if not kind.needs(device.capabilities):
        pytest.skip(f"{device!r} has no memory of kind {kind.name}")
    return kind


@pytest.fixture
def any_resource(every_kind: Any, pm: Any, device: Any) -> Iterator[Any]:
    """A resource of every kind in turn, and of every kind that stands over others."""
    made = every_kind.make(pm, device)
    yield made
    close_when_empty(made)


def test_an_address_that_is_not_out(pm: Any, any_resource: Any, device: Any) -> None:
    theirs = (ctypes.c_char * 4096)()
    stream = device.default_stream
    keeper = any_resource.allocate(NBYTES, stream=stream)
    write(pm, keeper, pattern(NBYTES, 1))
    freed = any_resource.allocate(NBYTES, stream=stream).release()
    any_resource.deallocate(freed, NBYTES, stream=stream)
    for address in (freed, keeper.handle + 512, keeper.handle + 1, ctypes.addressof(theirs), 0x1000):
        with pytest.raises((ValueError, portamem.Error)):
            any_resource.deallocate(address, 16, stream=stream)
        assert (any_resource.live_buffers, any_resource.live_bytes) == (1, NBYTES)
    with pytest.raises(BufferError, match="1 live"):
        any_resource.close()
    assert read_back(pm, keeper) == pattern(NBYTES, 1)
    keeper.close()
    with pytest.raises(ValueError, match=r"no live allocations|not out"):
        any_resource.deallocate(freed, NBYTES, stream=stream)


def test_another_size(pm: Any, any_resource: Any, device: Any) -> None:
    stream = device.default_stream
    keeper = any_resource.allocate(NBYTES, stream=stream)
    other = any_resource.allocate(NBYTES, stream=stream)
    write(pm, keeper, pattern(NBYTES, 2))
    address = keeper.release()
    for wrong in (16, NBYTES // 2, NBYTES + NBYTES // 2):
        with pytest.raises(ValueError, match="give the size that was allocated"):
            any_resource.deallocate(address, wrong, stream=stream)
        assert (any_resource.live_buffers, any_resource.live_bytes) == (2, 2 * NBYTES)
    any_resource.deallocate(address, NBYTES, stream=stream)
    other.close()


def test_memory_of_another_resource_of_the_kind(pm: Any, any_resource: Any, every_kind: Any, device: Any) -> None:
    stream = device.default_stream
    other = every_kind.make(pm, device)
    keeper = any_resource.allocate(NBYTES, stream=stream)
    theirs = other.allocate(NBYTES, stream=stream)
    write(pm, theirs, pattern(NBYTES, 3))
    if every_kind.kind != "system" and not pm.pointer_info(theirs.handle).base:
        pytest.skip("this runtime does not say where an allocation begins")
    with pytest.raises((ValueError, portamem.Error)):
        any_resource.deallocate(theirs.handle, NBYTES, stream=stream)
    assert (any_resource.live_buffers, other.live_buffers) == (1, 1)
    assert read_back(pm, theirs) == pattern(NBYTES, 3)
    theirs.close()
    close_when_empty(other)
    keeper.close()


def test_release_of_scratch_memory_passes_by_no_buffer(pm: Any, pinned_resource: Any) -> None:
    arena = pm.MonotonicMemoryResource(pinned_resource)
    keeper, address = arena.allocate(1000), arena.allocate(1000).release()
    arena.deallocate(address, 1000)
    for wrong, words in ((address, "given back before"), (address + 256, "begins at"), (address + 4096, "not given")):
        with pytest.raises(ValueError, match=words):
            arena.deallocate(wrong, 1000)
        with pytest.raises(BufferError, match="1 allocation"):
            arena.release()
    memoryview(keeper)[:] = pattern(1000, 4)
    keeper.close()
    arena.release()
    assert (arena.live_buffers, arena.reserved) == (0, 0)


PROGRAM = """
import importlib, json, sys
pm = importlib.import_module(sys.argv[1])
system = pm.SystemMemoryResource()
keeper, twice = system.allocate(4096), system.allocate(4096).release()
system.deallocate(twice, 4096)
said = []
for address in (twice, keeper.handle + 64, id(said)):
    try:
        system.deallocate(address, 64)
    except ValueError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_no_wrong_free_of_system_memory_ends_the_process(pm: Any) -> None:
    ran = run_python(PROGRAM, pm.__name__)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert len(said) == 3
    assert all("this address is not out" in words for words in said)
