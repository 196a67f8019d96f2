"""Memory of pools from stream to stream: given back in order, never handed out too early."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from helpers.latch import Latch
from helpers.memory import read_back

NBYTES = 64 << 10


def test_memory_freed_on_one_stream_and_wanted_on_another(
    pm: ModuleType, stream: Any, other_stream: Any, latch: Callable[[Any], Latch], pool: Any
) -> None:
    """Whether the pool hands out other memory or makes the second stream wait, nobody writes into the other's."""
    first = pool.allocate(NBYTES, stream=stream)
    held = latch(stream)
    first.fill(1, stream=stream)
    first.close(stream=stream)
    second = pool.allocate(NBYTES, stream=other_stream)
    done = second.fill(2, stream=other_stream)
    held.release()
    stream.synchronize()
    done.synchronize()
    assert read_back(pm, second) == b"\x02" * NBYTES
    second.close()


def test_without_reuse_policies_streams_share_nothing_unfinished(
    stream: Any, other_stream: Any, latch: Callable[[Any], Latch], pool: Any
) -> None:
    pool.reuse_follow_event_dependencies = False
    pool.reuse_allow_opportunistic = False
    pool.reuse_allow_internal_dependencies = False
    first = pool.allocate(NBYTES, stream=stream)
    address = first.handle
    held = latch(stream)
    first.close(stream=stream)
    with pool.allocate(NBYTES, stream=other_stream) as second:
        assert second.handle != address
        held.release()
        stream.synchronize()


def test_an_event_hands_memory_from_stream_to_stream(
    pm: ModuleType, stream: Any, other_stream: Any, latch: Callable[[Any], Latch], pool: Any
) -> None:
    first = pool.allocate(NBYTES, stream=stream)
    held = latch(stream)
    first.fill(1, stream=stream)
    first.close(stream=stream)
    other_stream.wait(stream.record())
    with pool.allocate(NBYTES, stream=other_stream) as second:
        done = second.fill(2, stream=other_stream)
        assert not done.query()
        held.release()
        done.synchronize()
        assert read_back(pm, second) == b"\x02" * NBYTES


def test_one_stream_reuses_its_memory_at_once(stream: Any, latch: Callable[[Any], Latch], pool: Any) -> None:
    pool.allocate(NBYTES, stream=stream).close()
    stream.synchronize()
    reserved = pool.reserved
    held = latch(stream)
    for _ in range(100):
        with pool.allocate(NBYTES, stream=stream) as buf:
            buf.fill(1, stream=stream)
    assert pool.reserved == reserved
    held.release()
    stream.synchronize()


def test_closing_a_stream_hands_its_frees_over(
    pm: ModuleType, device: Any, latch: Callable[[Any], Latch], pool: Any
) -> None:
    stream = pm.Stream(device)
    buf = pool.allocate(NBYTES, stream=stream)
    held = latch(stream)
    buf.fill(1, stream=stream)
    buf.close()
    stream.close()
    held.release()
    device.synchronize()
    assert pool.live_buffers == 0
    assert pool.used == 0
