"""The Python buffer protocol: where the host reaches the memory, and nowhere else."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate, pattern, read_back, write
from helpers.resources import HOST_REACHABLE


@pytest.fixture(params=HOST_REACHABLE)
def host_buf(request: pytest.FixtureRequest, make_resource: Callable[[str], Any]) -> Any:
    return make_resource(request.param).allocate(4096)


def test_memory_is_shared_with_python(pm: ModuleType, host_buf: Any) -> None:
    data = pattern(4096)
    with host_buf, memoryview(host_buf) as bytes_of:
        assert (bytes_of.format, bytes_of.itemsize, bytes_of.nbytes, bytes_of.readonly) == ("B", 1, 4096, False)
        assert bytes_of.c_contiguous
        bytes_of[:] = data
        assert read_back(pm, host_buf) == data
        host_buf.fill(6)
        assert bytes(bytes_of) == b"\x06" * 4096


def test_python_sees_the_protocol(pm: ModuleType) -> None:
    """From 3.12 on it is a method as well: what collections.abc.Buffer looks for."""
    for kind in (pm.Buffer, pm.PitchedBuffer, pm.View):
        assert hasattr(kind, "__buffer__") == (sys.version_info >= (3, 12))


def test_memory_is_shared_with_numpy(host_buf: Any) -> None:
    with host_buf:
        array = np.frombuffer(host_buf, np.float32)
        assert array.ctypes.data == host_buf.handle
        array[:] = 1.5
        with host_buf.view("float32") as view:
            assert np.array_equal(view.to_numpy(), np.full(1024, 1.5, np.float32))
        del array


def test_close_under_a_python_buffer_is_refused(pm: ModuleType, host_buf: Any) -> None:
    exported = memoryview(host_buf)
    assert host_buf.exports == 1
    with pytest.raises(BufferError, match="export"):
        host_buf.close()
    exported[0] = 42
    assert read_back(pm, host_buf)[0] == 42
    exported.release()
    assert host_buf.exports == 0
    host_buf.close()


def test_a_python_buffer_keeps_the_memory(host_buf: Any) -> None:
    resource = host_buf.resource
    exported = memoryview(host_buf)
    exported[:] = b"\x11" * 4096
    with pytest.raises(BufferError):
        host_buf.close()
    assert resource.live_buffers == 1
    assert bytes(exported) == b"\x11" * 4096
    exported.release()
    host_buf.close()


def test_a_buffer_that_only_python_holds(make_resource: Callable[[str], Any]) -> None:
    resource = make_resource("pinned")
    array = np.frombuffer(resource.allocate(4096), np.uint8)
    gc.collect()
    assert resource.live_buffers == 1
    assert array.size == 4096
    del array
    gc.collect()
    assert resource.live_buffers == 0


@pytest.mark.parametrize("reader", [memoryview, bytes, bytearray, lambda buf: np.frombuffer(buf, np.uint8)])
def test_only_what_the_host_reaches(resource: Any, reader: Callable[[Any], Any]) -> None:
    """Reading a device's memory on the CPU must be an exception, never a fault."""
    with allocate(resource, 4096) as buf:
        if resource.is_host_accessible:
            assert len(reader(buf)) == 4096
        else:
            with pytest.raises(BufferError, match=r"host can reach.*copy"):
                reader(buf)
        assert buf.exports == 0


def test_views_of_device_memory_are_no_python_buffers(device: Any, device_resource: Any) -> None:
    with device_resource.allocate(4096) as buf, buf.view() as view:
        if device.capabilities.direct_host_access:
            assert memoryview(view).nbytes == 4096
        else:
            with pytest.raises(BufferError, match=r"host can reach.*copy"):
                memoryview(view)


def test_a_view_exports_its_type(host_buf: Any) -> None:
    with host_buf, host_buf.view("float32", (4, 8)) as view, memoryview(view) as typed:
        assert (typed.format, typed.itemsize, typed.shape, typed.strides) == ("f", 4, (4, 8), (32, 4))
        array = np.asarray(view)
        assert array.dtype == np.float32
        assert array.shape == (4, 8)
        assert array.ctypes.data == host_buf.handle
        array[:] = 2.0
        del array
        assert view.to_numpy().sum() == 64.0


def test_close_of_a_view_under_a_python_buffer(host_buf: Any) -> None:
    view = host_buf.view("float32")
    exported = memoryview(view)
    with pytest.raises(BufferError, match="export"):
        host_buf.close()
    exported.release()
    view.close()
    host_buf.close()


def test_an_empty_python_buffer(pm: ModuleType, pinned_resource: Any) -> None:
    with pinned_resource.allocate(0) as buf, memoryview(buf) as nothing:
        assert nothing.nbytes == 0


@pytest.mark.parametrize("kind", HOST_REACHABLE)
def test_host_reachable_kinds_say_so(make_resource: Callable[[str], Any], kind: str) -> None:
    assert make_resource(kind).is_host_accessible


def test_device_kinds_follow_the_capability(device: Any, device_resource: Any) -> None:
    assert device_resource.is_host_accessible == bool(device.capabilities.direct_host_access)


def test_system_memory_follows_pageable_access(device: Any, make_resource: Callable[[str], Any]) -> None:
    assert make_resource("system").is_device_accessible == bool(device.capabilities.pageable_memory_access)


def test_bytes_of_python_objects_go_both_ways(pm: ModuleType, resource: Any) -> None:
    data = pattern(4096)
    with allocate(resource, 4096) as buf:
        for source in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.float64)):
            buf.fill(0)
            buf.copy_from(source)
            assert read_back(pm, buf) == data
        for target in (bytearray(4096), np.zeros((8, 64), np.float64)):
            buf.copy_to(target)
            assert bytes(target) == data
        write(pm, buf, bytes(4096))
