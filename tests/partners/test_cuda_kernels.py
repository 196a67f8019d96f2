"""Kernels on portamem's streams and memory: each reads what the other wrote, in the order of the stream."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers import kernels, partners
from helpers.kernels import Counter, DeviceLatch, Kernels
from helpers.memory import read_back, write
from helpers.partners import check

import portamem

NBYTES = 100_000
HOST_MEMORY = ("pinned", "pinned-non_coherent", "managed", "registered")

Hold = Callable[[Any], DeviceLatch]


@pytest.fixture
def warm(pm: ModuleType, stream: Any, other_stream: Any, make_memory: Callable[[str], Any]) -> None:
    """Every kind of work has run once: what the driver loads at first use it could not load beside a held kernel."""
    first, second = make_memory("device").object, make_memory("device").object
    near = make_memory("pinned").object
    for each in (stream, other_stream):
        first.fill(0, stream=each)
        pm.copy(second, first, stream=each)
        pm.copy(near, second, stream=each)
        pm.copy(first, near, stream=each)
        each.synchronize()


def host_bytes(memory: Any) -> memoryview:
    """The bytes where the host finds them, with no call of any runtime."""
    if isinstance(memory.object, portamem.Buffer):
        return memoryview(memory.object)
    return memoryview((ctypes.c_ubyte * memory.nbytes).from_address(memory.handle)).cast("B")


@pytest.mark.parametrize("nbytes", [1, 255, NBYTES])
def test_filled_by_a_kernel(pm: ModuleType, stream: Any, memory: Any, on_device: Kernels, nbytes: int) -> None:
    before = kernels.pattern(memory.nbytes, 1)
    write(pm, memory.object, before)
    on_device.fill(stream, memory.device_handle, nbytes, 2)
    stream.synchronize()
    assert read_back(pm, memory.object) == kernels.pattern(nbytes, 2) + before[nbytes:]


def test_written_by_us_and_verified_by_a_kernel(pm: ModuleType, stream: Any, memory: Any, counter: Counter) -> None:
    data = bytearray(kernels.pattern(memory.nbytes, 3))
    data[0] ^= 0xFF
    data[-1] ^= 0xFF
    write(pm, memory.object, bytes(data))
    counter.verify(stream, memory.device_handle, memory.nbytes, 3)
    assert counter.read() == 2, "the two bytes that were spoilt, and no other"


@pytest.mark.parametrize("kind", ["device", "pinned", "managed", "async", "async-default_pool", "interior"])
def test_filled_by_us_and_verified_on_the_same_stream(
    stream: Any, make_memory: Callable[[str], Any], counter: Counter, kind: str
) -> None:
    memory = make_memory(kind)
    memory.object.fill(0xC3, stream=stream)
    counter.verify_bytes(stream, memory.device_handle, memory.nbytes, 0xC3)
    assert counter.read() == 0


@pytest.mark.parametrize("kind", HOST_MEMORY)
def test_the_host_sees_what_a_kernel_wrote(
    stream: Any, make_memory: Callable[[str], Any], on_device: Kernels, kind: str
) -> None:
    memory = make_memory(kind)
    on_device.fill(stream, memory.device_handle, memory.nbytes, 4)
    stream.synchronize()
    with host_bytes(memory) as seen:
        assert bytes(seen) == kernels.pattern(memory.nbytes, 4)


@pytest.mark.parametrize("kind", HOST_MEMORY)
def test_a_kernel_sees_what_the_host_wrote(
    stream: Any, make_memory: Callable[[str], Any], counter: Counter, kind: str
) -> None:
    memory = make_memory(kind)
    with host_bytes(memory) as seen:
        seen[:] = kernels.pattern(memory.nbytes, 5)
    counter.verify(stream, memory.device_handle, memory.nbytes, 5)
    assert counter.read() == 0


def test_memory_of_the_system(
    pm: ModuleType, device: Any, stream: Any, make_resource: Callable[[str], Any], on_device: Kernels
) -> None:
    if not device.capabilities.pageable_memory_access:
        pytest.skip(f"kernels of {device!r} do not reach ordinary host memory")
    with make_resource("system").allocate(NBYTES) as buf:
        assert buf.is_device_accessible
        on_device.fill(stream, buf.handle, NBYTES, 6)
        stream.synchronize()
        assert bytes(memoryview(buf)) == kernels.pattern(NBYTES, 6)


def test_rows_of_pitched_memory(pm: ModuleType, stream: Any, device_resource: Any, on_device: Kernels) -> None:
    width, height = 1000, 20
    with device_resource.allocate_pitched(width, height) as buf:
        pm.fill_2d(buf, 0, stream=stream)
        for row in range(height):
            on_device.fill(stream, buf.handle + row * buf.pitch, width, row)
        out = bytearray(width * height)
        stream.synchronize()
        pm.copy_2d(out, buf)
    assert bytes(out) == b"".join(kernels.pattern(width, row) for row in range(height))


@pytest.mark.parametrize("source", ["device", "pinned", "managed", "async"])
@pytest.mark.parametrize("target", ["device", "pinned", "managed", "async"])
def test_copies_of_either_behind_kernels(
    pm: ModuleType,
    stream: Any,
    make_memory: Callable[[str], Any],
    on_device: Kernels,
    counter: Counter,
    source: str,
    target: str,
) -> None:
    """Kernel, our copy, their copy, kernel: one stream, and no waiting between."""
    first, second, third = (make_memory(kind) for kind in (source, target, source))
    on_device.fill(stream, first.device_handle, NBYTES, 7)
    pm.copy(second.object, first.object, stream=stream)
    on_device.copy(stream, third.device_handle, second.device_handle, NBYTES)
    counter.verify(stream, third.device_handle, NBYTES, 7)
    assert counter.read() == 0
    assert read_back(pm, third.object) == kernels.pattern(NBYTES, 7)


def test_our_work_waits_behind_their_kernel(
    pm: ModuleType,
    runtime: ModuleType,
    warm: None,
    stream: Any,
    other_stream: Any,
    make_memory: Callable[[str], Any],
    device_latch: Hold,
) -> None:
    near, far, beside = make_memory("pinned").object, make_memory("device").object, make_memory("pinned").object
    write(pm, near, kernels.pattern(NBYTES, 8))
    far.fill(0)
    held = device_latch(stream)
    filled = far.fill(0xEE, stream=stream)
    copied = pm.copy(far, near, stream=stream)
    assert not stream.query()
    assert not filled.query()
    assert not copied.query()
    assert int(runtime.cudaStreamQuery(stream.handle)[0]) == int(runtime.cudaError_t.cudaErrorNotReady)
    # Nothing of it has happened: seen by the witness, on a stream that is not held.
    kind = runtime.cudaMemcpyKind.cudaMemcpyDefault
    check(runtime.cudaMemcpyAsync(beside.handle, far.handle, NBYTES, kind, other_stream.handle))
    check(runtime.cudaStreamSynchronize(other_stream.handle))
    assert bytes(memoryview(beside)) == bytes(NBYTES)
    held.release()
    copied.synchronize()
    assert filled.query()
    assert read_back(pm, far) == kernels.pattern(NBYTES, 8)


def test_their_kernel_waits_behind_our_work(
    pm: ModuleType,
    warm: None,
    stream: Any,
    make_memory: Callable[[str], Any],
    on_device: Kernels,
    counter: Counter,
    device_latch: Hold,
) -> None:
    """Before the copy the bytes are others, so that a kernel that did not wait would count them."""
    near, far, back = make_memory("pinned").object, make_memory("device").object, make_memory("pinned").object
    write(pm, near, kernels.pattern(NBYTES, 9))
    far.fill(0)
    held = device_latch(stream)
    pm.copy(far, near, stream=stream)
    counter.verify(stream, far.handle, NBYTES, 9)
    on_device.fill(stream, far.handle, NBYTES, 10)
    done = pm.copy(back, far, stream=stream)
    assert not done.query()
    held.release()
    done.synchronize()
    assert bytes(memoryview(back)) == kernels.pattern(NBYTES, 10)
    assert counter.read() == 0


def test_blocking_calls_wait_for_declared_kernels(
    pm: ModuleType,
    warm: None,
    stream: Any,
    make_memory: Callable[[str], Any],
    on_device: Kernels,
    device_latch: Hold,
) -> None:
    """A copy without a stream runs after what was declared on its memory, on whatever stream."""
    memory = make_memory("device").object
    held = device_latch(stream)
    on_device.fill(stream, memory.handle, NBYTES, 11)
    memory.record_stream(stream)
    threading.Timer(0.03, held.release).start()
    assert read_back(pm, memory) == kernels.pattern(NBYTES, 11)


def test_our_event_orders_their_stream(
    pm: ModuleType,
    runtime: ModuleType,
    warm: None,
    stream: Any,
    other_stream: Any,
    make_memory: Callable[[str], Any],
    counter: Counter,
    device_latch: Hold,
) -> None:
    near, far = make_memory("pinned").object, make_memory("device").object
    write(pm, near, kernels.pattern(NBYTES, 12))
    far.fill(0)
    held = device_latch(stream)
    copied = pm.copy(far, near, stream=stream)
    check(runtime.cudaStreamWaitEvent(other_stream.handle, copied.handle, 0))
    counter.verify(other_stream, far.handle, NBYTES, 12)
    assert int(runtime.cudaEventQuery(copied.handle)[0]) == int(runtime.cudaError_t.cudaErrorNotReady)
    assert not other_stream.query()
    held.release()
    other_stream.synchronize()
    assert copied.query()
    assert counter.read() == 0


def test_their_event_orders_our_stream(
    pm: ModuleType,
    runtime: ModuleType,
    device: Any,
    warm: None,
    stream: Any,
    other_stream: Any,
    make_memory: Callable[[str], Any],
    on_device: Kernels,
    device_latch: Hold,
) -> None:
    far, back = make_memory("device").object, make_memory("pinned").object
    far.fill(0)
    theirs = check(runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming))
    held = device_latch(other_stream)
    on_device.fill(other_stream, far.handle, NBYTES, 13)
    check(runtime.cudaEventRecord(theirs, other_stream.handle))
    with pm.Event.from_handle(int(theirs), device=device, owner=theirs) as event:
        assert not event.query()
        stream.wait(event)
        done = pm.copy(back, far, stream=stream)
        assert not done.query()
        held.release()
        done.synchronize()
        assert event.query()
    assert bytes(memoryview(back)) == kernels.pattern(NBYTES, 13)
    check(runtime.cudaEventDestroy(theirs))


def test_memory_freed_behind_a_kernel_and_taken_again(
    pm: ModuleType,
    warm: None,
    stream: Any,
    pool: Any,
    make_memory: Callable[[str], Any],
    on_device: Kernels,
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
            on_device.fill(stream, buf.handle, NBYTES, seed)
            pm.copy(back, buf, stream=stream)
    assert not stream.query()
    assert pool.reserved == reserved
    held.release()
    stream.synchronize()
    for seed, back in enumerate(backs):
        assert bytes(memoryview(back)) == kernels.pattern(NBYTES, seed)


def test_a_recorded_kernel_keeps_its_memory(
    pm: ModuleType,
    warm: None,
    stream: Any,
    other_stream: Any,
    pool: Any,
    on_device: Kernels,
    counter: Counter,
    device_latch: Hold,
) -> None:
    """Closed while a kernel of another stream, declared, is still to read it: nobody writes there before it has."""
    buf = pool.allocate(NBYTES, stream=stream)
    on_device.fill(stream, buf.handle, NBYTES, 14)
    stream.synchronize()
    held = device_latch(other_stream)
    counter.verify(other_stream, buf.handle, NBYTES, 14)
    buf.record_stream(other_stream)
    buf.close(stream=stream)
    with pool.allocate(NBYTES, stream=stream) as next_user:
        next_user.fill(0xEE, stream=stream)
        held.release()
        stream.synchronize()
    assert counter.read() == 0


def test_calls_leave_the_current_context_as_it_was(
    pm: ModuleType, driver: ModuleType, device: Any, make_resource: Callable[[str], Any]
) -> None:
    """A thread that had no context has none after them, and one that had keeps its own."""
    resource = make_resource("device")
    seen: list[int] = []

    def work() -> None:
        with pm.Stream(device) as own, resource.allocate(NBYTES) as buf:
            buf.fill(1, stream=own)
            own.synchronize()
            read_back(pm, buf)
        seen.append(int(check(driver.cuCtxGetCurrent())))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0]
    before = int(check(driver.cuCtxGetCurrent()))
    work()
    assert seen[-1] == before != 0


def test_two_devices_and_their_kernels(pm: ModuleType, cuda: None, two_devices: tuple[Any, Any]) -> None:
    """Memory and streams of the second device, kernels of its own, copies between the two: the witness agrees."""
    runtime = partners.cuda_runtime()
    first, second = two_devices
    with partners.cuda_context(second.ordinal):
        there, counter = kernels.on(second.ordinal), Counter(kernels.on(second.ordinal))
    with (
        pm.DeviceMemoryResource(first) as near,
        pm.DeviceMemoryResource(second) as far,
        near.allocate(NBYTES) as source,
        far.allocate(NBYTES) as target,
        pm.Stream(first) as stream,
        pm.Stream(second) as far_stream,
    ):
        assert check(runtime.cudaPointerGetAttributes(source.handle)).device == first.ordinal
        assert check(runtime.cudaPointerGetAttributes(target.handle)).device == second.ordinal
        write(pm, source, kernels.pattern(NBYTES, 15))
        copied = pm.copy(target, source, stream=stream)
        far_stream.wait(copied)
        with partners.cuda_context(second.ordinal):
            counter.verify(far_stream, target.handle, NBYTES, 15)
            far_stream.synchronize()
            assert counter.read() == 0
            there.fill(far_stream, target.handle, NBYTES, 16)
        pm.copy(source, target, stream=far_stream).synchronize()
        assert read_back(pm, source) == kernels.pattern(NBYTES, 16)
    with partners.cuda_context(second.ordinal):
        counter.close()


@pytest.mark.parametrize("asked", ["pool", "device"])
def test_peers_as_the_witness_sees_them(pm: ModuleType, cuda: None, two_devices: tuple[Any, Any], asked: str) -> None:
    runtime = partners.cuda_runtime()
    first, second = two_devices
    reaches = bool(check(runtime.cudaDeviceCanAccessPeer(first.ordinal, second.ordinal)))
    assert first.can_access_peer(second) == reaches
    if not reaches:
        pytest.skip("these two devices cannot reach each other")
    if asked == "device":
        first.enable_peer_access(second)
        try:
            (again,) = runtime.cudaDeviceEnablePeerAccess(second.ordinal, 0)
            assert int(again) == int(runtime.cudaError_t.cudaErrorPeerAccessAlreadyEnabled)
        finally:
            first.disable_peer_access(second)
        return
    with pm.AsyncMemoryResource(first) as pool:
        location = runtime.cudaMemLocation()
        location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
        location.id = second.ordinal
        for access, name in (("read_write", "ProtReadWrite"), ("none", "ProtNone")):
            pool.set_access(second, access)
            theirs = check(runtime.cudaMemPoolGetAccess(pool.pool_handle, location))
            assert theirs == getattr(runtime.cudaMemAccessFlags, f"cudaMemAccessFlags{name}")
