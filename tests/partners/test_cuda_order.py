"""Orders, contexts and peers that cuda-python sets up, and portamem follows; and the other way round."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import read_back, write
from helpers.partners import check

from portamem.conformance.witness import Counter, DeviceLatch, Witness, pattern

NBYTES = 100_000

Hold = Callable[[Any], DeviceLatch]


def test_our_event_orders_their_stream(
    pm: ModuleType,
    runtime: ModuleType,
    warm: None,
    stream: Any,
    other_stream: Any,
    make_memory: Callable[[str], Any],
    kernels: Witness,
    counter: Counter,
    device_latch: Hold,
) -> None:
    near, far = make_memory("pinned").object, make_memory("device").object
    write(pm, near, pattern(NBYTES, 12))
    far.fill(0)
    held = device_latch(stream)
    copied = pm.copy(far, near, stream=stream)
    check(runtime.cudaStreamWaitEvent(other_stream.handle, copied.handle, 0))
    kernels.verify(other_stream.handle, far.handle, NBYTES, 12, counter)
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
    kernels: Witness,
    device_latch: Hold,
) -> None:
    far, back = make_memory("device").object, make_memory("pinned").object
    far.fill(0)
    theirs = check(runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming))
    held = device_latch(other_stream)
    kernels.fill(other_stream.handle, far.handle, NBYTES, 13)
    check(runtime.cudaEventRecord(theirs, other_stream.handle))
    with pm.Event.from_handle(int(theirs), device=device, owner=theirs) as event:
        assert not event.query()
        stream.wait(event)
        done = pm.copy(back, far, stream=stream)
        assert not done.query()
        held.release()
        done.synchronize()
        assert event.query()
    assert bytes(memoryview(back)) == pattern(NBYTES, 13)
    check(runtime.cudaEventDestroy(theirs))


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


@pytest.mark.parametrize("asked", ["pool", "device"])
def test_peers_as_the_witness_sees_them(
    pm: ModuleType, runtime: ModuleType, two_devices: tuple[Any, Any], asked: str
) -> None:
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
