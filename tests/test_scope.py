"""The current resource: a scope of the thread, read at allocation only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import MIB


def test_allocations_in_a_scope_come_from_its_resource(pm: ModuleType, resource: Any) -> None:
    before = pm.current_resource(resource.device)
    with pm.using(resource):
        assert pm.current_resource(resource.device) is resource
        view = pm.zeros((4, 8), "float32")
    assert pm.current_resource(resource.device) is before
    assert view.buffer.resource is resource
    assert not view.to_numpy().any()
    view.close()


def test_scopes_nest(pm: ModuleType, device: Any, make_resource: Callable[[str], Any]) -> None:
    outer, inner = make_resource("device"), make_resource("pinned")
    with pm.using(outer):
        with pm.using(inner):
            assert pm.current_resource(device) is inner
        assert pm.current_resource(device) is outer
        with pm.using(outer):
            assert pm.current_resource(device) is outer
        assert pm.current_resource(device) is outer


def test_an_exception_ends_the_scope(pm: ModuleType, device: Any, device_resource: Any) -> None:
    before = pm.current_resource(device)
    with pytest.raises(KeyError, match="mine"), pm.using(device_resource):
        raise KeyError("mine")
    assert pm.current_resource(device) is before


def test_a_scope_belongs_to_its_thread(pm: ModuleType, device: Any, device_resource: Any) -> None:
    seen: list[Any] = []
    with pm.using(device_resource):
        thread = threading.Thread(target=lambda: seen.append(pm.current_resource(device)))
        thread.start()
        thread.join()
    assert seen
    assert seen[0] is not device_resource


def test_threads_have_scopes_of_their_own(pm: ModuleType, device: Any) -> None:
    barrier = threading.Barrier(4)
    wrong: list[str] = []

    def work() -> None:
        with pm.DeviceMemoryResource(device) as mine, pm.using(mine):
            barrier.wait(10)
            for _ in range(50):
                with pm.empty(64) as view:
                    if view.buffer.resource is not mine:
                        wrong.append(repr(view))
            barrier.wait(10)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_scope_is_of_one_device(pm: ModuleType, two_devices: tuple[Any, Any]) -> None:
    first, second = two_devices
    with pm.DeviceMemoryResource(second) as resource:
        before = pm.current_resource(first)
        with pm.using(resource):
            assert pm.current_resource(second) is resource
            assert pm.current_resource(first) is before


def test_live_buffers_never_look_it_up(pm: ModuleType, make_resource: Callable[[str], Any]) -> None:
    device_resource, pinned = make_resource("device"), make_resource("pinned")
    with pm.using(device_resource):
        view = pm.empty(16)
    with pm.using(pinned):
        view.fill(1)
        view.close()
    assert device_resource.live_buffers == pinned.live_buffers == 0


def test_a_scope_keeps_its_resource(pm: ModuleType, device: Any) -> None:
    with pm.using(pm.DeviceMemoryResource(device)), pm.empty(16) as view:
        assert view.buffer.resource.live_bytes == view.nbytes


@pytest.mark.parametrize("wrong", [None, 42, "device"])
def test_a_scope_takes_a_resource(pm: ModuleType, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"(?i)resource"), pm.using(wrong):
        pass


def test_a_closed_resource_opens_no_scope(pm: ModuleType, device: Any) -> None:
    resource = pm.DeviceMemoryResource(device)
    resource.close()
    with pytest.raises(ValueError, match="closed"), pm.using(resource):
        pass


def test_without_a_scope_there_is_a_resource(pm: ModuleType, device: Any) -> None:
    assert pm.current_resource(device) is pm.current_resource(device)
    assert pm.current_resource() is pm.current_resource(pm.Device.current())


def test_empty_zeros_asarray(pm: ModuleType, device: Any, stream: Any) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    with (
        pm.empty((3, 4), "int16") as empty,
        pm.zeros(5, np.float64) as zeros,
        pm.asarray(array) as copied,
        pm.asarray(array, stream=stream) as queued,
    ):
        assert (empty.shape, empty.dtype) == ((3, 4), "int16")
        assert (zeros.shape, zeros.dtype) == ((5,), "float64")
        assert not zeros.to_numpy().any()
        assert (copied.shape, copied.dtype) == ((3, 4), "int16")
        assert np.array_equal(copied.to_numpy(), array)
        assert np.array_equal(queued.to_numpy(stream=stream), array)


def test_asarray_takes_what_numpy_takes(pm: ModuleType) -> None:
    with pm.asarray([1.5, 2.5]) as from_list, pm.asarray(b"abc") as from_bytes, pm.asarray(3) as scalar:
        assert (from_list.dtype, from_list.shape) == ("float64", (2,))
        assert (from_bytes.dtype, from_bytes.shape) == ("uint8", (3,))
        assert scalar.shape == ()
    with pytest.raises(ValueError, match="ascontiguousarray"):
        pm.asarray(np.arange(10)[::2])


def test_the_memory_goes_with_the_last_view(pm: ModuleType, device: Any, device_resource: Any) -> None:
    with pm.using(device_resource):
        view = pm.empty(MIB, "uint8")
    part = view[:16]
    view.close()
    assert device_resource.live_bytes == MIB
    part.close()
    assert device_resource.live_bytes == 0


def test_the_default_resource_cannot_be_closed(pm: ModuleType, device: Any) -> None:
    """Everybody in the process allocates from it."""
    default = pm.current_resource(device)
    with pytest.raises(BufferError, match="default resource"):
        default.close()
    with default:
        pass
    with pm.empty(16, "uint8", device=device) as view:
        assert view.nbytes == 16
