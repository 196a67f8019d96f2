"""Memory in use by a stream: kept alive by copies, given back in order, never handed out too early."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.latch import Latch
from helpers.memory import pattern, read_back, write
from helpers.waiting import eventually

NBYTES = 64 << 10


def test_a_copy_keeps_both_ends_alive(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], pinned_resource: Any, device_resource: Any
) -> None:
    data = pattern(NBYTES)
    source, target = pinned_resource.allocate(NBYTES), device_resource.allocate(NBYTES)
    write(pm, source, data)
    held = latch(stream)
    target.copy_from(source, stream=stream)
    del source
    gc.collect()
    assert pinned_resource.live_buffers == 1
    held.release()
    stream.synchronize()
    assert read_back(pm, target) == data
    target.close()
    assert eventually(lambda: pinned_resource.live_buffers == 0)


def test_a_copy_keeps_the_memory_of_python_objects(pm: ModuleType, stream: Any, device_resource: Any) -> None:
    data = pattern(NBYTES)
    array = np.frombuffer(data, np.uint8).copy()
    alive = weakref.ref(array)
    with device_resource.allocate(NBYTES) as target:
        pm.copy(target, array, stream=stream)
        del array
        gc.collect()
        stream.synchronize()
        assert read_back(pm, target) == data
    assert eventually(lambda: gc.collect() >= 0 and alive() is None)


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_host_memory_in_use_is_not_handed_out_again(
    pm: ModuleType,
    stream: Any,
    latch: Callable[[Any], Latch],
    make_resource: Callable[[str], Any],
    device_resource: Any,
    kind: str,
) -> None:
    """Closing the source of a pending copy, and allocating anew, must not disturb that copy."""
    data = pattern(NBYTES)
    resource = make_resource(kind)
    with device_resource.allocate(NBYTES) as target:
        source = resource.allocate(NBYTES)
        write(pm, source, data)
        held = latch(stream)
        done = target.copy_from(source, stream=stream)
        held.release_soon()
        source.close()
        assert done.query(), "close waits: no vendor promises that its free does"
        with resource.allocate(NBYTES) as intruder:
            intruder.fill(0xFF)
        assert read_back(pm, target) == data


def test_recorded_use_delays_the_free(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], pool: Any, device: Any
) -> None:
    """A pool's memory, closed while another stream declared a use of it, goes back behind that use."""
    with pm.Stream(device) as home:
        buf = pool.allocate(NBYTES, stream=home)
        home.synchronize()
        held = latch(stream)
        buf.record_stream(stream)
        buf.close()
        assert not home.query(), "the free waits for the stream that was declared"
        held.release()
        home.synchronize()
        assert pool.used == 0


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


def test_a_buffer_keeps_its_stream_alive(pm: ModuleType, device: Any, pool: Any) -> None:
    stream = pm.Stream(device)
    identity = stream.identity
    with pool.allocate(NBYTES, stream=stream) as buf:
        del stream
        gc.collect()
        assert buf.stream.identity == identity
        assert not buf.stream.is_closed
        buf.fill(5, stream=buf.stream)
        assert read_back(pm, buf) == b"\x05" * NBYTES


def test_a_buffer_may_be_closed_after_its_stream(pm: ModuleType, device: Any, pool: Any) -> None:
    stream = pm.Stream(device)
    buf = pool.allocate(NBYTES, stream=stream)
    stream.close()
    buf.close()
    device.synchronize()
    assert pool.live_buffers == 0


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_host_access_is_not_stream_ordered(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], make_resource: Callable[[str], Any], kind: str
) -> None:
    """A Python buffer waits for declared work once, when it is taken. From then on the caller orders host access."""
    with make_resource(kind).allocate(4096) as buf:
        if kind == "managed" and not buf.device.capabilities.concurrent_managed_access:
            pytest.skip("the host may not touch managed memory while the device is busy")
        buf.fill(0)
        with memoryview(buf) as seen:
            held = latch(stream)
            buf.fill(1, stream=stream)
            assert bytes(seen) == bytes(4096)
            held.release_soon()
            with memoryview(buf) as later:
                assert bytes(later) == b"\x01" * 4096
