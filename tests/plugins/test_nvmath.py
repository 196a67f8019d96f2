"""The allocator for nvmath: with a stand-in that has its protocols, and with nvmath itself where it is installed."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest
from helpers import backend
from helpers.process import python_output
from plugins.fakes_nvmath import BaseCUDAMemoryManager, BaseCUDAMemoryManagerAsync, ForeignStream, Workspace

from portamem.plugins import nvmath as plug


@pytest.fixture(autouse=True)
def _on_the_backend_under_test(monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> None:
    monkeypatch.setattr(plug, "_BACKENDS", (pm.backend,))


def test_it_fulfils_the_protocols() -> None:
    made = plug.allocator()
    assert isinstance(made, BaseCUDAMemoryManager)
    assert isinstance(made, BaseCUDAMemoryManagerAsync)


def test_workspaces_are_the_resources(source: Any, stream: Any) -> None:
    made = plug.allocator(source)
    assert made.resource is source
    workspace = Workspace(made)
    address = workspace.allocate(1000, ForeignStream(stream.handle))
    assert source.size_of(address) == 1000
    assert (workspace.memory.size, workspace.memory._buffer.stream.handle) == (1000, stream.handle)
    workspace.release()
    assert source.live_bytes == 0
    address = workspace.allocate(1000, stream)
    workspace.release()
    assert workspace.allocate(1000, stream) == address, "freed on the stream, and taken on it again"


def test_memory_can_be_freed_by_hand(source: Any, stream: Any) -> None:
    memory = plug.allocator(source).memalloc_async(1000, stream)
    assert "1000 bytes" in repr(memory)
    memory.free()
    assert source.live_bytes == 0
    memory.free()


def test_memory_without_a_stream_waits(source: Any, pm: ModuleType, device: Any, stream: Any, latch: Any) -> None:
    """It is for work on any stream, so a free waits for the device."""
    memory = plug.allocator(source).memalloc(1000)
    hold = latch(stream)
    freed = threading.Thread(target=memory.free)
    freed.start()
    freed.join(0.1)
    assert freed.is_alive()
    assert source.live_bytes == 1000
    hold.release()
    freed.join()
    assert source.live_bytes == 0


def test_without_a_resource_the_current_one_is_taken(pm: ModuleType, device: Any, stream: Any) -> None:
    made = plug.allocator()
    assert made.resource is None
    with pm.PoolMemoryResource(device=device) as first:
        with pm.using(first):
            memory, other = made.memalloc_async(100, stream), made.memalloc(50)
        assert first.live_bytes == 150
        default = pm.default_resource(device).live_bytes
        last = made.memalloc_async(10, stream)
        assert pm.default_resource(device).live_bytes == default + 10
        del memory, other, last
        assert (first.live_bytes, pm.default_resource(device).live_bytes) == (0, default)


def test_memory_is_of_the_streams_device(pm: ModuleType, two_devices: Any) -> None:
    made = plug.allocator()
    with pm.PoolMemoryResource(device=1) as second, pm.using(second), pm.Stream(1) as stream:
        memory = made.memalloc_async(100, stream)
        assert second.live_bytes == 100
        del memory
        with pm.PoolMemoryResource(device=0) as first, pytest.raises(ValueError, match="device"):
            plug.allocator(first).memalloc_async(100, stream)


def test_wrong_arguments(pm: ModuleType, device: Any, stream: Any) -> None:
    with pytest.raises(TypeError, match="nvmath takes memory from a resource of portamem, not from a int"):
        plug.allocator(7)
    with pytest.raises(ValueError, match="not stream-ordered"):
        plug.allocator(pm.DeviceMemoryResource(device))
    pool = pm.PoolMemoryResource()
    made = plug.allocator(pool)
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        made.memalloc_async(10, stream)
    with pytest.raises(ValueError, match="closed"):
        plug.allocator(pool)


def test_memory_that_lives_until_exit() -> None:
    assert (
        python_output(
            """
            import portamem.host as pm
            from portamem.plugins import nvmath
            nvmath._BACKENDS = ("host",)
            made = nvmath.allocator()
            kept = [made.memalloc(1000), made.memalloc_async(1000, pm.Stream())]
            kept.append(kept)
            """
        )
        == ""
    )


def test_the_real_package_takes_the_allocator(pm: ModuleType, source: Any, stream: Any) -> None:
    memory = pytest.importorskip("nvmath.memory")
    utils = pytest.importorskip("nvmath.internal.utils")
    made = plug.allocator(source)
    assert isinstance(made, memory.BaseCUDAMemoryManagerAsync)
    assert isinstance(made, memory.BaseCUDAMemoryManager)
    taken = made.memalloc_async(1000, stream)
    assert utils.get_ptr_from_memory_pointer(taken) == taken.device_ptr
    assert source.size_of(taken.device_ptr) == 1000


def test_the_real_workspace(pm: ModuleType, source: Any) -> None:
    """nvmath's own machinery of workspaces, with its contexts of device and stream left out."""
    workspaces = pytest.importorskip("nvmath._internal.workspace")
    utils = pytest.importorskip("nvmath.internal.utils")
    import contextlib
    import logging
    from types import SimpleNamespace

    with pytest.MonkeyPatch.context() as patched, pm.Stream() as stream:
        patched.setattr(utils, "device_ctx", lambda device: contextlib.nullcontext())
        workspace = workspaces.Workspace(plug.allocator(source), logging.getLogger(__name__), device_id=0)
        holder = SimpleNamespace(ctx=contextlib.nullcontext(), obj=stream)
        workspace.set_size(1000)
        with workspace.allocate_perhaps(holder, get_last_event=None) as taken:
            assert source.size_of(taken.raw_ptr) == 1000
        workspace.set_size(2000)
        with workspace.allocate_perhaps(holder, get_last_event=None) as taken:
            assert source.size_of(taken.raw_ptr) == 2000
            assert source.live_bytes == 2000
            taken.release(None)
        assert source.live_bytes == 0


def test_an_operation_on_the_gpu() -> None:
    if backend.under_test().backend != "cuda":
        pytest.skip("nvmath's operations are for NVIDIA GPUs, and the backend under test is another")
    pytest.importorskip("nvmath")
    pytest.importorskip("cupy")
    done = python_output(
        """
        import cupy
        import nvmath
        import portamem.cuda as pm
        from portamem.plugins import nvmath as plug
        pool = pm.PoolMemoryResource(pm.DeviceMemoryResource())
        counted = pm.StatisticsAdaptor(pool)
        a, b = cupy.ones((512, 512), "f4"), cupy.ones((512, 512), "f4")
        options = {"allocator": plug.allocator(counted)}
        result = nvmath.linalg.advanced.matmul(a, b, options=options)
        assert (result == 512).all()
        with nvmath.fft.FFT(cupy.ones((1000, 1009), "c8"), options=options) as fft:
            fft.plan()
            fft.execute()
        assert counted.live_bytes == 0
        print("done")
        """
    )
    assert done.endswith("done\n")
