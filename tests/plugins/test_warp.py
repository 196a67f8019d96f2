"""Warp's plug: with a stand-in that has Warp's interface of allocators, and with Warp itself where it is installed."""

from __future__ import annotations

import gc
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
from helpers import backend
from helpers.process import python_output, run_python
from plugins.fakes_warp import Array, ContextGuard, Device, Stream, Warp, module

from portamem.conformance.kit.reported import unraisable
from portamem.plugins import warp as plug


@pytest.fixture
def wp(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> Warp:
    return module(monkeypatch, pm)


def test_arrays_are_the_resources(wp: Warp, source: Any) -> None:
    with plug.use(source) as active:
        assert (active.library, active.resource, active.is_active) == ("warp", source, True)
        array = Array(1000, wp.devices[0])
        assert array.ptr is not None
        assert source.size_of(array.ptr) == 1000
        assert source.live_bytes == 1000
        empty = Array(0, wp.devices[0])
        assert empty.ptr is None
        entered = ContextGuard.entered
        del array
        assert ContextGuard.entered == entered, "Warp changed the context for a free that needs none"
        assert source.live_bytes == 0


def test_the_devices_that_are_plugged(wp: Warp, source: Any, pm: ModuleType) -> None:
    with plug.use(source):
        plugged = [device for device in wp.devices if device._custom_allocator is not None]
        assert [device.ordinal for device in plugged] == [0]
    with plug.use():
        assert all(device._custom_allocator is not None for device in wp.devices)
    last = wp.devices[-1]
    with plug.use(device=str(last)):
        assert [device for device in wp.devices if device._custom_allocator is not None] == [last]
    assert all(device._custom_allocator is None for device in wp.devices)


def test_undo_leaves_memory_with_its_resource(wp: Warp, source: Any) -> None:
    active = plug.use(source)
    array = Array(1000, wp.devices[0])
    active.undo()
    assert wp.get_device_allocator("cuda:0") is wp.devices[0].current_allocator
    assert Array(10, wp.devices[0]).ptr == 4096
    assert source.live_bytes == 1000
    del array
    assert source.live_bytes == 0


def test_undo_puts_a_programs_allocator_back(wp: Warp, source: Any) -> None:
    own = Device(0).current_allocator
    wp.set_device_allocator("cuda:0", own)
    with plug.use(source):
        assert wp.get_device_allocator("cuda:0") is not own
    assert wp.get_device_allocator("cuda:0") is own


def test_undo_after_another_allocator(wp: Warp, source: Any) -> None:
    active = plug.use(source)
    ours = wp.get_device_allocator("cuda:0")
    wp.set_device_allocator("cuda:0", None)
    with pytest.raises(RuntimeError, match=r"another allocator for cuda:0 since.*BuiltinAllocator"):
        active.undo()
    assert active.is_active
    wp.set_device_allocator("cuda:0", ours)
    active.undo()


def test_two_plugs(wp: Warp, source: Any, pm: ModuleType) -> None:
    with pm.PoolMemoryResource() as second:
        outer, inner = plug.use(source), plug.use(second)
        array = Array(100, wp.devices[0])
        with pytest.raises(RuntimeError, match="a later plug"):
            outer.undo()
        inner.undo()
        more = Array(10, wp.devices[0])
        assert (source.live_bytes, second.live_bytes) == (10, 100)
        outer.undo()
        del array, more
        assert (source.live_bytes, second.live_bytes) == (0, 0)


def test_memory_is_of_the_current_stream(wp: Warp, source: Any, pm: ModuleType, device: Any, latch: Any) -> None:
    """It is taken on the current stream, and goes back on the one that is current then, behind the former's work."""
    with pm.Stream(device) as first, pm.Stream(device) as second, plug.use(source):
        wp.devices[0].stream = Stream(first.handle)
        array = Array(1000, wp.devices[0])
        (buffer,) = wp.devices[0]._custom_allocator._buffers.values()
        assert buffer.stream.handle == first.handle
        del buffer
        hold = latch(first)
        wp.devices[0].stream = Stream(second.handle)
        del array
        assert source.live_bytes == 0
        assert not second.query(), "the memory goes back on the second stream, which waits for the first"
        hold.release()
        device.synchronize()
        wp.devices[0].stream = Stream(None)
        array = Array(1000, wp.devices[0])
        (buffer,) = wp.devices[0]._custom_allocator._buffers.values()
        assert buffer.stream.is_default
        del buffer, array


def test_without_a_resource_the_current_one_is_taken(wp: Warp, pm: ModuleType, device: Any) -> None:
    with plug.use() as active, pm.PoolMemoryResource(device=device) as first:
        assert active.resource is None
        with pm.using(first):
            array = Array(100, wp.devices[0])
        default = pm.default_resource(device).live_bytes
        other = Array(50, wp.devices[0])
        assert (first.live_bytes, pm.default_resource(device).live_bytes) == (100, default + 50)
        del array, other
        assert (first.live_bytes, pm.default_resource(device).live_bytes) == (0, default)


def test_each_device_has_its_own_current_resource(wp: Warp, pm: ModuleType, two_devices: Any) -> None:
    with plug.use(), pm.PoolMemoryResource(device=1) as second, pm.using(second):
        array = Array(100, wp.devices[1])
        assert second.live_bytes == 100
        del array


def test_free_on_another_thread(wp: Warp, source: Any) -> None:
    with plug.use(source):
        held = [Array(1000, wp.devices[0])]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        assert source.live_bytes == 0


def test_memory_within_a_capture(wp: Warp, source: Any, pm: ModuleType, device: Any) -> None:
    with pm.Stream(device) as stream, plug.use(source):
        wp.devices[0].stream = Stream(stream.handle)
        array = Array(1000, wp.devices[0])
        stream.begin_capture("thread_local")
        with pytest.raises(ValueError, match="captur"):
            Array(64 << 20, wp.devices[0])
        with unraisable() as reported:
            del array
        assert stream.capture_status == "active"
        stream.end_capture()
        assert not reported
        gc.collect()
        source.trim()
        assert source.live_bytes == 0
        wp.devices[0].stream = Stream(None)


def test_wrong_frees(wp: Warp, source: Any) -> None:
    with plug.use(source):
        allocator = wp.get_device_allocator("cuda:0")
        address = allocator.allocate(100)
        allocator.deallocate(address, 100)
        with pytest.raises(ValueError, match=f"no memory of portamem is out at {address:#x} .100 bytes."):
            allocator.deallocate(address, 100)
        allocator.deallocate(0, 0)


def test_wrong_arguments(wp: Warp, source: Any, pm: ModuleType, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="Warp takes memory from a resource of portamem, not from a int"):
        plug.use(7)
    with pytest.raises(ValueError, match="not stream-ordered"):
        plug.use(pm.DeviceMemoryResource(device))
    with pytest.raises(ValueError, match="cpu is no CUDA device"):
        plug.use(source, "cpu")
    with pytest.raises(ValueError, match="Invalid device identifier: cuda:77"):
        plug.use(source, "cuda:77")
    with pytest.raises(ValueError, match="a context of its own"):
        plug.use(source, Device(0, is_primary=False))
    with pytest.raises(ValueError, match="the resource is of device 0, and Warp's device is cuda:5"):
        plug.use(source, Device(5))
    wp.devices.clear()
    with pytest.raises(RuntimeError, match="Warp finds no CUDA device"):
        plug.use(source)
    monkeypatch.setattr(Warp, "__version__", "0.15.1")
    with pytest.raises(ImportError, match=r"warp 0\.15\.1 is too old"):
        plug.use(source)
    older = ModuleType("warp")
    older.__version__ = "1.0.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "warp", older)
    with pytest.raises(ImportError, match=r"warp 1\.0\.0 has no set_device_allocator"):
        plug.use(source)


@pytest.mark.skipif(importlib.util.find_spec("warp") is not None, reason="Warp is here")
def test_without_warp() -> None:
    with pytest.raises(ImportError, match="install warp-lang"):
        plug.use()


def test_the_real_package_takes_the_allocator() -> None:
    """Without a device: the object fulfils Warp's protocol, and Warp says that it has no device."""
    pytest.importorskip("warp")
    done = run_python(
        """
        import portamem.host as pm
        import warp
        from portamem.plugins import warp as plug
        from warp._src.context import Allocator, _validate_allocator
        warp.config.quiet = True
        warp.config.log_level = 50
        pool = pm.PoolMemoryResource()
        class Stream:
            __cuda_stream__ = warp.Stream.__cuda_stream__
            cuda_stream = None
        device = type("Device", (), {"ordinal": 0, "stream": Stream()})()
        made = plug._Allocator(pm, device, pool)
        assert isinstance(made, Allocator)
        _validate_allocator(made)
        made.deallocate(made.allocate(100), 100)
        assert pool.live_bytes == 0
        plug._BACKENDS = ("host",)
        if not warp.get_cuda_devices():
            for refused, arguments in ((RuntimeError, (pool,)), (RuntimeError, (pool, "cpu"))):
                try:
                    plug.use(*arguments)
                except refused as error:
                    assert "Warp finds no CUDA device" in str(error), error
                else:
                    raise AssertionError
        print("done")
        """
    )
    assert done.returncode == 0, done.stderr  # Warp itself writes there that it finds no driver


def test_arrays_on_the_gpu() -> None:
    if backend.under_test().backend != "cuda":
        pytest.skip("Warp's devices are NVIDIA GPUs, and the backend under test is another")
    pytest.importorskip("warp")
    done = python_output(
        """
        import numpy as np
        import portamem.cuda as pm
        import warp as wp
        from portamem.plugins import warp as plug
        wp.config.quiet = True
        pool = pm.PoolMemoryResource(pm.DeviceMemoryResource())
        numbers = np.arange(100_000, dtype="f4")
        active = plug.use(pool)
        array = wp.array(numbers, dtype=wp.float32, device="cuda:0")
        assert pool.size_of(array.ptr) == 400_000
        assert (array.numpy() == numbers).all()
        with wp.ScopedStream(wp.Stream("cuda:0")):
            other = wp.zeros(1000, dtype=wp.float32, device="cuda:0")
        del other
        active.undo()
        assert pool.live_bytes == 400_000
        assert (array.numpy() == numbers).all()
        del array
        assert pool.live_bytes == 0
        print("done")
        """
    )
    assert done.endswith("done\n")
