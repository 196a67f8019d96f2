"""HostRegistration: page-locking memory that a Python object owns."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.latch import Latch
from helpers.memory import pattern, read_back

import portamem


def test_what_it_says_of_itself(pm: ModuleType) -> None:
    array = np.zeros(10_000, np.uint8)
    with pm.HostRegistration(array) as registered:
        assert registered.handle == array.ctypes.data
        assert registered.nbytes == 10_000
        assert registered.device_handle != 0
        assert not registered.is_closed
        info = pm.pointer_info(registered)
        assert info.kind == "host"
        assert info.device_pointer == registered.device_handle
    assert registered.is_closed
    assert pm.pointer_info(array.ctypes.data).kind == "unregistered"


def test_copies_on_a_stream_never_block(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], device_resource: Any
) -> None:
    data = np.frombuffer(pattern(65536), np.uint8).copy()
    with device_resource.allocate(65536) as buf, pm.HostRegistration(data) as registered:
        held = latch(stream)
        done = buf.copy_from(registered, stream=stream)
        assert not done.query()
        held.release()
        done.synchronize()
        assert read_back(pm, buf) == data.tobytes()


def test_it_keeps_the_object(pm: ModuleType) -> None:
    array = np.zeros(4096, np.uint8)
    alive = weakref.ref(array)
    registered = pm.HostRegistration(array)
    del array
    gc.collect()
    assert alive() is not None
    registered.close()
    registered.close()
    del registered
    gc.collect()
    assert alive() is None


def test_it_keeps_the_objects_buffer(pm: ModuleType) -> None:
    data = bytearray(4096)
    with pm.HostRegistration(data), pytest.raises(BufferError):
        data.extend(b"more")
    data.extend(b"more")


def test_the_garbage_collector_closes_it(pm: ModuleType) -> None:
    array = np.zeros(4096, np.uint8)
    pm.HostRegistration(array)
    gc.collect()
    with pm.HostRegistration(array):
        pass


def test_twice(pm: ModuleType) -> None:
    array = np.zeros(4096, np.uint8)
    with pm.HostRegistration(array) as registered:
        with pytest.raises(portamem.Error, match="HostMemoryAlreadyRegistered") as caught:
            pm.HostRegistration(array)
        assert caught.value.code == 712
        assert not registered.is_closed


def test_while_work_is_pending(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], device_resource: Any
) -> None:
    """Closing waits for, or outlives, the copies that still use the memory."""
    data = np.frombuffer(pattern(65536), np.uint8).copy()
    with device_resource.allocate(65536) as buf:
        registered = pm.HostRegistration(data)
        held = latch(stream)
        buf.copy_from(registered, stream=stream)
        held.release_soon()
        registered.close()
        stream.synchronize()
        assert read_back(pm, buf) == data.tobytes()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: 42, TypeError, "buffer"),
        (lambda: None, TypeError, "buffer"),
        (lambda: np.zeros((8, 8))[:, ::2], (ValueError, BufferError), r"contiguous"),
        (lambda: bytearray(), ValueError, r"0 bytes|empty|no bytes"),
        (lambda: b"read only", (ValueError, BufferError), r"read.?only"),
    ],
)
def test_what_cannot_be_registered(
    pm: ModuleType, make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pm.HostRegistration(make())


def test_read_only_memory(pm: ModuleType, device_resource: Any) -> None:
    """HIP's flag of that number means something else: there it is refused in words."""
    data = pattern(4096)
    if pm.backend == "hip":
        with pytest.raises(portamem.Error, match="NotSupported"):
            pm.HostRegistration(data, read_only=True)
        return
    with pm.HostRegistration(data, read_only=True) as registered, device_resource.allocate(4096) as buf:
        buf.copy_from(registered)
        assert read_back(pm, buf) == data
        with pytest.raises((ValueError, BufferError), match=r"read.?only"):
            buf.copy_to(registered)


def test_a_closed_one_refuses(pm: ModuleType, device_resource: Any) -> None:
    registered = pm.HostRegistration(bytearray(4096))
    registered.close()
    with device_resource.allocate(4096) as buf, pytest.raises(ValueError, match="closed"):
        buf.copy_from(registered)
    assert "closed" in repr(registered)
