"""Kernels on portamem's streams and memory: each reads what the other wrote, in the order of the stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers import witnesses
from helpers.memory import read_back, write
from helpers.waiting import eventually

import portamem
from portamem.conformance.witness import Counter, DeviceLatch, Witness, pattern

NBYTES = 100_000
HOST_MEMORY = ("pinned", "pinned-non_coherent", "managed", "registered")

Hold = Callable[[Any], DeviceLatch]


def host_bytes(memory: Any) -> memoryview:
    """The bytes where the host finds them, with no call of any runtime."""
    if isinstance(memory.object, portamem.Buffer):
        return memoryview(memory.object)
    return memoryview((ctypes.c_ubyte * memory.nbytes).from_address(memory.handle)).cast("B")


@pytest.mark.parametrize("nbytes", [1, 255, NBYTES])
def test_filled_by_a_kernel(pm: ModuleType, stream: Any, memory: Any, kernels: Witness, nbytes: int) -> None:
    before = pattern(memory.nbytes, 1)
    write(pm, memory.object, before)
    kernels.fill(stream.handle, memory.device_handle, nbytes, 2)
    stream.synchronize()
    assert read_back(pm, memory.object) == pattern(nbytes, 2) + before[nbytes:]


def test_written_by_us_and_verified_by_a_kernel(
    pm: ModuleType, stream: Any, memory: Any, kernels: Witness, counter: Counter
) -> None:
    data = bytearray(pattern(memory.nbytes, 3))
    data[0] ^= 0xFF
    data[-1] ^= 0xFF
    write(pm, memory.object, bytes(data))
    kernels.verify(stream.handle, memory.device_handle, memory.nbytes, 3, counter)
    assert counter.read() == 2, "the two bytes that were spoilt, and no other"


@pytest.mark.parametrize("kind", ["device", "pinned", "managed", "async", "async-default_pool", "interior"])
def test_filled_by_us_and_verified_on_the_same_stream(
    stream: Any, make_memory: Callable[[str], Any], kernels: Witness, counter: Counter, kind: str
) -> None:
    memory = make_memory(kind)
    memory.object.fill(0xC3, stream=stream)
    kernels.verify_value(stream.handle, memory.device_handle, memory.nbytes, 0xC3, counter)
    assert counter.read() == 0


@pytest.mark.parametrize("kind", HOST_MEMORY)
def test_the_host_sees_what_a_kernel_wrote(
    stream: Any, make_memory: Callable[[str], Any], kernels: Witness, kind: str
) -> None:
    memory = make_memory(kind)
    kernels.fill(stream.handle, memory.device_handle, memory.nbytes, 4)
    stream.synchronize()
    with host_bytes(memory) as seen:
        assert bytes(seen) == pattern(memory.nbytes, 4)


@pytest.mark.parametrize("kind", HOST_MEMORY)
def test_a_kernel_sees_what_the_host_wrote(
    stream: Any, make_memory: Callable[[str], Any], kernels: Witness, counter: Counter, kind: str
) -> None:
    memory = make_memory(kind)
    with host_bytes(memory) as seen:
        seen[:] = pattern(memory.nbytes, 5)
    kernels.verify(stream.handle, memory.device_handle, memory.nbytes, 5, counter)
    assert counter.read() == 0


def test_memory_of_the_system(
    pm: ModuleType, device: Any, stream: Any, make_resource: Callable[[str], Any], kernels: Witness
) -> None:
    if not device.capabilities.pageable_memory_access:
        pytest.skip(f"kernels of {device!r} do not reach ordinary host memory")
    with make_resource("system").allocate(NBYTES) as buf:
        assert buf.is_device_accessible
        kernels.fill(stream.handle, buf.handle, NBYTES, 6)
        stream.synchronize()
        assert bytes(memoryview(buf)) == pattern(NBYTES, 6)


def test_rows_of_pitched_memory(pm: ModuleType, stream: Any, device_resource: Any, kernels: Witness) -> None:
    width, height = 1000, 20
    with device_resource.allocate_pitched(width, height) as buf:
        pm.fill_2d(buf, 0, stream=stream)
        for row in range(height):
            kernels.fill(stream.handle, buf.handle + row * buf.pitch, width, row)
        out = bytearray(width * height)
        stream.synchronize()
        pm.copy_2d(out, buf)
    assert bytes(out) == b"".join(pattern(width, row) for row in range(height))


@pytest.mark.parametrize("source", ["device", "pinned", "managed", "async"])
@pytest.mark.parametrize("target", ["device", "pinned", "managed", "async"])
def test_copies_of_either_behind_kernels(
    pm: ModuleType,
    stream: Any,
    make_memory: Callable[[str], Any],
    kernels: Witness,
    counter: Counter,
    source: str,
    target: str,
) -> None:
    """Kernel, our copy, their copy, kernel: one stream, and no waiting between."""
    first, second, third = (make_memory(kind) for kind in (source, target, source))
    kernels.fill(stream.handle, first.device_handle, NBYTES, 7)
    pm.copy(second.object, first.object, stream=stream)
    kernels.copy(stream.handle, third.device_handle, second.device_handle, NBYTES)
    kernels.verify(stream.handle, third.device_handle, NBYTES, 7, counter)
    assert counter.read() == 0
    assert read_back(pm, third.object) == pattern(NBYTES, 7)


def test_our_work_waits_behind_their_kernel(
    pm: ModuleType,
    kernels: Witness,
    warm: None,
    stream: Any,
    other_stream: Any,
    make_memory: Callable[[str], Any],
    device_latch: Hold,
) -> None:
    near, far, beside = make_memory("pinned").object, make_memory("device").object, make_memory("pinned")
    write(pm, near, pattern(NBYTES, 8))
    far.fill(0)
    held = device_latch(stream)
    filled = far.fill(0xEE, stream=stream)
    copied = pm.copy(far, near, stream=stream)
    assert not stream.query()
    assert not filled.query()
    assert not copied.query()
    assert not kernels.stream_is_done(stream.handle)
    assert not kernels.event_is_done(copied.handle)
    # Neither the fill nor the copy has happened, as the witness sees on a stream that is not held.
    kernels.copy(other_stream.handle, beside.device_handle, far.handle, NBYTES)
    assert eventually(lambda: kernels.stream_is_done(other_stream.handle))
    assert bytes(memoryview(beside.object)) == bytes(NBYTES)
    held.release()
    copied.synchronize()
    assert kernels.event_is_done(copied.handle)
    assert filled.query()
    assert read_back(pm, far) == pattern(NBYTES, 8)


def test_their_kernel_waits_behind_our_work(
    pm: ModuleType,
    warm: None,
    stream: Any,
    make_memory: Callable[[str], Any],
    kernels: Witness,
    counter: Counter,
    device_latch: Hold,
) -> None:
    """Before the copy the bytes are others, so that a kernel that did not wait would count them."""
    near, far, back = make_memory("pinned").object, make_memory("device").object, make_memory("pinned").object
    write(pm, near, pattern(NBYTES, 9))
    far.fill(0)
    held = device_latch(stream)
    pm.copy(far, near, stream=stream)
    kernels.verify(stream.handle, far.handle, NBYTES, 9, counter)
    kernels.fill(stream.handle, far.handle, NBYTES, 10)
    done = pm.copy(back, far, stream=stream)
    assert not done.query()
    held.release()
    done.synchronize()
    assert bytes(memoryview(back)) == pattern(NBYTES, 10)
    assert counter.read() == 0


def test_blocking_calls_wait_for_declared_kernels(
    pm: ModuleType,
    warm: None,
    stream: Any,
    make_memory: Callable[[str], Any],
    kernels: Witness,
    device_latch: Hold,
) -> None:
    """A copy without a stream runs after what was declared on its memory, on whatever stream."""
    memory = make_memory("device").object
    held = device_latch(stream)
    kernels.fill(stream.handle, memory.handle, NBYTES, 11)
    memory.record_stream(stream)
    threading.Timer(0.03, held.release).start()
    assert read_back(pm, memory) == pattern(NBYTES, 11)


def test_memory_freed_behind_a_kernel_and_taken_again(
    pm: ModuleType,
    warm: None,
    stream: Any,
    pool: Any,
    make_memory: Callable[[str], Any],
    kernels: Witness,
    device_latch: Hold,
) -> None:
    """A stream reuses its own memory at once, and each user still sees its own bytes."""
    backs = [make_memory("pinned").object for _ in range(3)]
    pool.allocate(NBYTES, stream=stream).close()
    stream.synchronize()
    reserved = pool.reserved
    held = device_latch(stream)
    for seed, back in enumerate(backs):
        with pool.allocate(NBYTES, stream=stream) as buf:
            kernels.fill(stream.handle, buf.handle, NBYTES, seed)
            pm.copy(back, buf, stream=stream)
    assert not stream.query()
    assert pool.reserved == reserved
    held.release()
    stream.synchronize()
    for seed, back in enumerate(backs):
        assert bytes(memoryview(back)) == pattern(NBYTES, seed)


def test_a_recorded_kernel_keeps_its_memory(
    pm: ModuleType,
    warm: None,
    stream: Any,
    other_stream: Any,
    pool: Any,
    kernels: Witness,
    counter: Counter,
    device_latch: Hold,
) -> None:
    """The buffer is closed while a kernel of another stream, declared, is still to read it: no work writes there
    before."""
    buf = pool.allocate(NBYTES, stream=stream)
    kernels.fill(stream.handle, buf.handle, NBYTES, 14)
    stream.synchronize()
    held = device_latch(other_stream)
    kernels.verify(other_stream.handle, buf.handle, NBYTES, 14, counter)
    buf.record_stream(other_stream)
    buf.close(stream=stream)
    with pool.allocate(NBYTES, stream=stream) as next_user:
        next_user.fill(0xEE, stream=stream)
        held.release()
        stream.synchronize()
    assert counter.read() == 0


def test_two_devices_and_their_kernels(pm: ModuleType, kernels: Witness, two_devices: tuple[Any, Any]) -> None:
    """Memory and streams of the second device, kernels of its own, copies between the two: the witnesses agree."""
    first, second = two_devices
    there = witnesses.with_kernels(pm.backend, second.ordinal)
    with (
        pm.DeviceMemoryResource(first) as near,
        pm.DeviceMemoryResource(second) as far,
        near.allocate(NBYTES) as source,
        far.allocate(NBYTES) as target,
        pm.Stream(first) as stream,
        pm.Stream(second) as far_stream,
        there.counter() as counter,
    ):
        assert kernels.pointer(source.handle).device_id == first.ordinal
        assert kernels.pointer(target.handle).device_id == second.ordinal
        write(pm, source, pattern(NBYTES, 15))
        copied = pm.copy(target, source, stream=stream)
        far_stream.wait(copied)
        there.verify(far_stream.handle, target.handle, NBYTES, 15, counter)
        far_stream.synchronize()
        assert counter.read() == 0
        there.fill(far_stream.handle, target.handle, NBYTES, 16)
        pm.copy(source, target, stream=far_stream).synchronize()
        assert read_back(pm, source) == pattern(NBYTES, 16)
