"""The host runtime fails the n-th call: whatever fails, the exception says so, nothing leaks, and all works after."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import pattern, read_back
from helpers.waiting import eventually

import portamem
from portamem.enums import MemoryAdvice

pytestmark = pytest.mark.host_only

NBYTES = 4096
DATA = pattern(NBYTES)


def plain(pm: ModuleType, stream: Any) -> None:
    with pm.DeviceMemoryResource(0) as resource, resource.allocate(NBYTES) as buf:
        pm.copy(buf, DATA)
        assert read_back(pm, buf) == DATA


def pooled(pm: ModuleType, stream: Any) -> None:
    with pm.AsyncMemoryResource(0) as pool, pool.allocate(NBYTES, stream=stream) as buf:
        pm.copy(buf, DATA, stream=stream).synchronize()
        assert read_back(pm, buf) == DATA


def pinned(pm: ModuleType, stream: Any) -> None:
    with pm.PinnedMemoryResource(0) as resource, resource.allocate(NBYTES) as buf, buf.view("float32") as view:
        buf.fill(1, stream=stream).synchronize()
        assert view.to_numpy().tobytes() == b"\x01" * NBYTES


def managed(pm: ModuleType, stream: Any) -> None:
    with pm.ManagedMemoryResource(0) as resource, resource.allocate(NBYTES) as buf:
        buf.advise(MemoryAdvice.READ_MOSTLY)
        buf.prefetch(0, stream=stream)
        buf.prefetch("host")


def pitched(pm: ModuleType, stream: Any) -> None:
    with pm.DeviceMemoryResource(0) as resource, resource.allocate_pitched(100, 8) as buf:
        pm.fill_2d(buf, 2, stream=stream)
        pm.copy_2d(bytearray(800), buf, stream=stream)


def registered(pm: ModuleType, stream: Any) -> None:
    with (
        pm.HostRegistration(bytearray(NBYTES)) as memory,
        pm.DeviceMemoryResource(0) as resource,
        resource.allocate(NBYTES) as buf,
    ):
        buf.copy_from(memory, stream=stream).synchronize()


def two_streams(pm: ModuleType, stream: Any) -> None:
    with (
        pm.Stream(0) as other,
        pm.Event(0) as event,
        pm.AsyncMemoryResource(0) as pool,
        pool.allocate(NBYTES, stream=stream) as buf,
    ):
        stream.record(event)
        other.wait(event)
        buf.record_stream(other)
        buf.fill(1, stream=other)


def arrays(pm: ModuleType, stream: Any) -> None:
    with pm.zeros((16, 16), "float32") as view, pm.asarray(view.to_numpy()) as again:
        assert not again.to_numpy().any()


SCENES = (plain, pooled, pinned, managed, pitched, registered, two_streams, arrays)


@pytest.mark.parametrize("code", [2, 999], ids=["OutOfMemory", "Unknown"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_whatever_call_fails(
    pm: ModuleType, device: Any, knobs: Any, scene: Callable[[ModuleType, Any], None], code: int
) -> None:
    """Fails the first call of the scene, then the second, and so on until the scene runs through."""
    for nth in range(1, 500):
        with pm.Stream(device) as stream:
            knobs.fail_call(None, nth, code)
            try:
                scene(pm, stream)
                failed = False
            except portamem.Error as error:
                failed = True
                assert error.code == code  # noqa: PT017
                assert error.call  # noqa: PT017
            knobs.reset()
            stream.synchronize()
        scene(pm, pm.Device(0).default_stream)
        if not failed and nth > 3:
            break
    else:
        pytest.fail("the scene never ran through")


@pytest.mark.parametrize(
    ("call", "work"),
    [
        ("Malloc", lambda pm, stream: pm.DeviceMemoryResource(0).allocate(16)),
        ("HostMalloc", lambda pm, stream: pm.PinnedMemoryResource(0).allocate(16)),
        ("MallocManaged", lambda pm, stream: pm.ManagedMemoryResource(0).allocate(16)),
        ("MallocFromPoolAsync", lambda pm, stream: pm.AsyncMemoryResource(0).allocate(16, stream=stream)),
        ("MemPoolCreate", lambda pm, stream: pm.AsyncMemoryResource(0, max_size="77 MiB")),  # none like it to reuse
        ("StreamSynchronize", lambda pm, stream: stream.synchronize()),
        ("EventRecord", lambda pm, stream: stream.record()),
        ("LaunchHostFunc", lambda pm, stream: stream.launch_host_func(print)),
    ],
)
def test_the_error_names_the_call(
    pm: ModuleType, stream: Any, knobs: Any, call: str, work: Callable[[ModuleType, Any], object]
) -> None:
    knobs.fail_call(call, 1, 999)
    with pytest.raises(portamem.Error, match=call) as caught:
        work(pm, stream)
    assert (caught.value.call, caught.value.code, caught.value.name) == (call, 999, "Unknown")
    knobs.reset()
    stream.synchronize()


def test_the_nth_call(pm: ModuleType, device_resource: Any, knobs: Any) -> None:
    knobs.fail_call("Malloc", 3, 2)
    live = [device_resource.allocate(16), device_resource.allocate(16)]
    with pytest.raises(portamem.OutOfMemoryError):
        device_resource.allocate(16)
    live.append(device_resource.allocate(16))
    for buf in live:
        buf.close()


def test_a_free_that_fails_can_be_tried_again(device_resource: Any, knobs: Any) -> None:
    buf = device_resource.allocate(16)
    knobs.fail_call("Free", 1, 999)
    with pytest.raises(portamem.Error, match="Free"):
        buf.close()
    assert not buf.is_closed
    buf.fill(1)
    buf.close()


def test_a_failed_free_of_a_forgotten_buffer(device: Any, device_resource: Any, knobs: Any) -> None:
    """Destructors never raise: what could not go back is tried again, and goes back soon."""
    buf = device_resource.allocate(16)
    knobs.fail_call("Free", 1, 999)
    del buf
    assert eventually(lambda: device_resource.live_buffers == 0)


def test_an_exception_is_not_hidden_by_a_failing_close(device_resource: Any, knobs: Any) -> None:
    with pytest.raises(KeyError, match="mine"), device_resource.allocate(16):  # noqa: PT012
        knobs.fail_call("Free", 1, 999)
        raise KeyError("mine")


def test_copies_can_be_slow(
    pm: ModuleType, stream: Any, pinned_resource: Any, device_resource: Any, knobs: Any
) -> None:
    with pinned_resource.allocate(16) as src, device_resource.allocate(16) as dst:
        src.fill(1)
        knobs.set_copy_delay(20_000)
        done = dst.copy_from(src, stream=stream)
        assert not done.query()
        done.synchronize()
        assert read_back(pm, dst) == b"\x01" * 16


@pytest.mark.parametrize(
    "call",
    [
        lambda knobs: knobs.fail_call("Malloc", -1, 2),
        lambda knobs: knobs.fail_call("Malloc", 1, 0),
        lambda knobs: knobs.set_copy_delay(-1),
        lambda knobs: knobs.set_capacity(0, -1),
        lambda knobs: knobs.set_capacity(99, 1),
    ],
)
def test_knobs_refuse_nonsense(knobs: Any, call: Callable[[Any], object]) -> None:
    with pytest.raises((ValueError, TypeError, portamem.Error)):
        call(knobs)
