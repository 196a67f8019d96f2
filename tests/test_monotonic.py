# SPDX-License-Identifier: MIT
"""MonotonicMemoryResource: memory that is taken piece by piece and goes back all at once."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.memory import KIB, allocate, overlapping, pattern, read_back, write
from helpers.waiting import close_when_empty, eventually

import portamem


@pytest.fixture
def arena(pm: Any, resource: Any) -> Any:
    """An arena over every kind of memory in turn."""
    made = pm.MonotonicMemoryResource(resource, initial_size="64 KiB")
    yield made
    close_when_empty(made)


def test_pieces_until_all_is_released(pm: Any, arena: Any, resource: Any) -> None:
    assert isinstance(arena, portamem.MonotonicMemoryResource)
    assert (arena.kind, arena.is_stream_ordered) == (resource.kind, resource.is_stream_ordered)
    assert arena.upstream is resource
    assert (arena.initial_size, arena.reserved) == (64 * KIB, 0)
    for _ in range(2):
        live = [allocate(arena, 5000 + i) for i in range(40)]
        assert not overlapping(live)
        for i, buffer in enumerate(live):
            write(pm, buffer, pattern(buffer.nbytes, i))
        assert all(read_back(pm, buffer) == pattern(buffer.nbytes, i) for i, buffer in enumerate(live))
        assert arena.reserved == (64 + 128 + 256) * KIB
        with pytest.raises(BufferError, match=r"40 allocation\(s\) out"):
            arena.release()
        for buffer in live:
            buffer.close()
        assert eventually(lambda: arena.live_buffers == 0)
        assert resource.live_buffers == 3
        arena.release()
        assert (arena.reserved, resource.live_buffers) == (0, 0)


def test_release_waits_for_every_stream(
    pm: Any, pinned_resource: Any, device_resource: Any, stream: Any, latch: Any
) -> None:
    arena = pm.MonotonicMemoryResource(pinned_resource)
    target = allocate(device_resource, 4096)
    first, second = arena.allocate(4096), arena.allocate(4096)
    memoryview(second)[:] = pattern(4096, 3)
    held = latch(stream)
    target.copy_from(second, stream=stream)
    arena.deallocate(second.release(), 4096, stream=stream)
    first.close()
    assert pinned_resource.live_buffers == 1
    held.release_soon()
    arena.release()
    assert pinned_resource.live_buffers == 0
    stream.synchronize()
    assert read_back(pm, target) == pattern(4096, 3)
    target.close()


def test_alignment(arena: Any, device: Any) -> None:
    odd = arena.allocate(1, stream=device.default_stream)
    aligned = arena.allocate(100, stream=device.default_stream, alignment=4096)
    assert aligned.handle % 4096 == 0
    with pytest.raises(ValueError, match="power of two"):
        arena.allocate(100, stream=device.default_stream, alignment=48)
    odd.close()
    aligned.close()


def test_bad_arguments(pm: Any, pinned_resource: Any) -> None:
    make = pm.MonotonicMemoryResource
    for size, error in ((0, ValueError), (-1, ValueError), (2**80, ValueError), (None, TypeError)):
        with pytest.raises(error):
            make(pinned_resource, initial_size=size)
    with pytest.raises(TypeError, match="upstream is a MemoryResource"):
        make(object())
    arena = make(pinned_resource)
    with pytest.raises(portamem.OutOfMemoryError):
        arena.allocate(1 << 50)
    assert (arena.live_buffers, arena.reserved) == (0, 0)
    keep, address = arena.allocate(10), arena.allocate(10).release()
    with pytest.raises(ValueError, match="not given out this memory"):
        arena.deallocate(address + 512, 10)
    arena.deallocate(address, 10)
    keep.close()
    with pytest.raises(ValueError, match="no live allocations"):
        arena.deallocate(address, 10)
    arena.close()
    arena.close()
    arena.release()
    with pytest.raises(ValueError, match="closed"):
        arena.allocate(1)
