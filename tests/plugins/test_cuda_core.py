"""Memory resources both ways between portamem and cuda.core: with a stand-in in which memory of the backend under test
is a CUDA device's, with cuda.core itself, and on a CUDA GPU."""

from __future__ import annotations

import contextlib
import gc
import threading
from types import ModuleType
from typing import Any

import pytest
from helpers import backend, partners
from helpers.memory import pattern, read_back, write
from helpers.process import python_output
from plugins import fakes_cuda_core as fakes

import portamem
from portamem.plugins import cuda_core as plug


@pytest.fixture(params=[fakes.Buffer, fakes.OlderBuffer], ids=["1.2", "0.5"])
def fake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, pm: ModuleType) -> Any:
    if pm.backend == "hip":
        pytest.skip("cuda.core is for CUDA")
    made = fakes.module(request.param)
    monkeypatch.setattr(plug, "_core", lambda: made)
    monkeypatch.setattr(plug, "_NO_DEVICE", ())
    return made


def test_buffers_are_the_resources(fake: Any, source: Any, device: Any, stream: Any) -> None:
    mr = plug.memory_resource(source)
    assert isinstance(mr, fake.MemoryResource)
    assert mr.resource is source
    assert (mr.device_id, mr.is_device_accessible, mr.is_managed) == (device.ordinal, True, False)
    assert mr.is_host_accessible == source.is_host_accessible
    theirs = fake.Stream(stream.handle)
    buffer = mr.allocate(1000, stream=theirs)
    assert (buffer.size, source.size_of(buffer.handle), source.live_bytes) == (1000, 1000, 1000)
    assert mr._buffers[buffer.handle].stream.handle == stream.handle
    other = buffer.copy_to(stream=theirs)
    assert source.live_bytes == 2000
    buffer.close(theirs)
    assert source.live_bytes == 1000
    del other
    assert source.live_bytes == 0


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_what_a_resource_says_of_its_memory(
    fake: Any, pm: ModuleType, device: Any, make_resource: Any, kind: str
) -> None:
    with pm.PoolMemoryResource(make_resource(kind)) as pool:
        mr = plug.memory_resource(pool)
        assert mr.is_managed == (kind == "managed")
        assert mr.is_host_accessible == pool.is_host_accessible
        assert mr.device_id == pool.device_id


def test_memory_goes_back_on_the_stream_that_is_named(
    fake: Any, source: Any, device: Any, stream: Any, other_stream: Any, latch: Any
) -> None:
    mr, named = plug.memory_resource(source), fake.Stream(other_stream.handle)
    buffer = mr.allocate(1000, stream=fake.Stream(stream.handle))
    address = buffer.handle
    hold = latch(stream)
    buffer.close(named)
    assert source.live_bytes == 0
    assert not other_stream.query(), "the other stream waits for the work on the stream of the allocation"
    assert mr.allocate(1000, stream=named).handle == address, "and has it at once"
    hold.release()
    device.synchronize()
    mr.allocate(1000, stream=fake.GraphBuilder(named)).close(fake.GraphBuilder(named))


def test_streams_of_portamem_and_none(fake: Any, source: Any, device: Any, stream: Any) -> None:
    mr = plug.memory_resource(source)
    buffer = mr.allocate(1000, stream=stream)
    assert mr._buffers[buffer.handle].stream == stream
    default = mr.allocate(1000)
    assert mr._buffers[default.handle].stream == device.default_stream
    mr.deallocate(buffer.handle, 1000, stream=stream)
    buffer._is_open = False
    assert source.live_bytes == 1000
    del default
    empty = mr.allocate(0, stream=stream)
    assert (empty.handle, empty.size) == (0, 0)
    empty.close()
    assert not mr._buffers


def test_streams_of_cuda_core_for_memory_of_the_host(
    fake: Any, source: Any, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release 1.2.0 wants a context for memory of the host too, unless a stream is named: it is passed on."""
    monkeypatch.setattr(plug, "_NO_DEVICE", (source.backend,))
    mr, named = plug.memory_resource(source), fake.Stream(stream.handle)
    assert not mr.is_device_accessible
    buffer = mr.allocate(1000, stream=named)
    assert buffer._stream is (named if fake.Buffer is fakes.Buffer else None)
    buffer.close(named)
    default = mr.allocate(1000, stream=stream)
    assert default._stream is not named
    default.close()
    assert source.live_bytes == 0


def test_a_buffer_keeps_its_resource_alive(fake: Any, pm: ModuleType, device: Any, stream: Any) -> None:
    before = pm.held(device)
    held = [plug.memory_resource(pm.PoolMemoryResource(device=device)).allocate(1000, stream=stream)]
    gc.collect()
    assert pm.held(device) > before
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()


def test_a_buffer_that_cannot_be_made(fake: Any, source: Any, stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError("no context")

    monkeypatch.setattr(fake.Buffer, "from_handle", fails)
    with pytest.raises(RuntimeError, match="no context"):
        plug.memory_resource(source).allocate(1000, stream=stream)
    assert source.live_bytes == 0


def test_wrong_frees(fake: Any, source: Any, stream: Any) -> None:
    mr = plug.memory_resource(source)
    with pytest.raises(ValueError, match=r"no memory of .*cuda\.core.* is out at 0x1000 .10 bytes."):
        mr.deallocate(4096, 10, stream=stream)
    mr.deallocate(0, 0)


def test_wrong_resources(fake: Any, pm: ModuleType, device: Any) -> None:
    with pytest.raises(TypeError, match="name it"):
        plug.memory_resource(None)
    with pytest.raises(TypeError, match=r"cuda\.core takes memory from a resource of portamem, not from a str"):
        plug.memory_resource("pool")
    with pytest.raises(ValueError, match="not stream-ordered"):
        plug.memory_resource(pm.DeviceMemoryResource(device))
    closed = pm.PoolMemoryResource()
    mr = plug.memory_resource(closed)
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        plug.memory_resource(closed)
    with pytest.raises(ValueError, match="closed"):
        mr.allocate(10)


def test_a_resource_over_theirs(fake: Any, pm: ModuleType, device: Any, stream: Any) -> None:
    mr = fakes.heap(fake, fake.DeviceMemoryResource, on_device=True, device_id=device.ordinal)
    with plug.from_cuda_core(mr, device=device) as resource:
        assert (resource.kind, resource.device, resource.is_stream_ordered) == ("async", device, True)
        assert not resource.is_host_accessible
        with resource.allocate(1000, stream=stream) as buffer:
            assert list(mr.out) == [buffer.handle]
            assert resource.live_bytes == 1000
        assert mr.calls == [("allocate", 1000, stream.handle), ("deallocate", 1000, stream.handle)]
        mr.calls.clear()
        resource.allocate(10, stream=device.default_stream).close()
        assert mr.calls == [("allocate", 10, 1), ("deallocate", 10, 1)]
        with pm.PoolMemoryResource(resource) as pool:
            pool.allocate(1000, stream=stream).close()
            assert len(mr.out) == 1
        assert not mr.out


def test_a_resource_whose_frees_have_no_order(fake: Any, pm: ModuleType, device: Any, stream: Any, latch: Any) -> None:
    """Memory of a class that is no pool's goes back when the work on its stream has run."""
    mr = fakes.heap(fake, on_device=True, device_id=device.ordinal)
    with plug.from_cuda_core(mr, device=device) as resource:
        assert (resource.kind, resource.is_stream_ordered) == ("device", False)
        buffer = resource.allocate(1000, stream=stream)
        hold = latch(stream)
        closed = threading.Thread(target=buffer.close)
        closed.start()
        closed.join(0.1)
        assert mr.out
        hold.release()
        closed.join()
        device.synchronize()
        assert not mr.out


def test_errors_of_their_resources(fake: Any, pm: ModuleType, device: Any, stream: Any) -> None:
    mr = fakes.heap(fake, on_device=True, device_id=device.ordinal)
    with plug.from_cuda_core(mr, device=device) as resource:
        for none in (MemoryError(), RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: The API call failed")):
            mr.error = none
            with pytest.raises(portamem.OutOfMemoryError):
                resource.allocate(1000, stream=stream)
        mr.error = KeyError("odd")
        with pytest.raises(KeyError, match="odd"):
            resource.allocate(1000, stream=stream)
        assert resource.live_bytes == 0


def test_there_and_back_is_the_same_resource(fake: Any, source: Any) -> None:
    assert plug.from_cuda_core(plug.memory_resource(source)) is source


def test_wrong_resources_of_theirs(fake: Any, pm: ModuleType, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match=r"takes a cuda\.core\.MemoryResource, not a PoolMemoryResource"):
        plug.from_cuda_core(pm.PoolMemoryResource())
    with pytest.raises(ValueError, match="no device reaches this memory: name the device"):
        plug.from_cuda_core(fakes.heap(fake))
    on_device = fakes.heap(fake, on_device=True, device_id=0)
    with pytest.raises(TypeError, match="device is a Device of portamem"):
        plug.from_cuda_core(on_device, device=0)
    monkeypatch.setattr(plug, "_NO_DEVICE", (pm.backend,))
    with pytest.raises(ValueError, match=f"a device of portamem.{pm.backend}"):
        plug.from_cuda_core(on_device, device=device)


@pytest.fixture
def core() -> Any:
    return partners.cuda_core()


def test_cuda_core_takes_memory_of_the_host_backend(core: Any) -> None:
    """cuda.core itself, where it needs no driver: it makes the buffers and gives their memory back."""
    done = python_output(
        """
        import contextlib
        import cuda.core
        import portamem.host as pm
        from portamem.plugins import cuda_core
        with contextlib.suppress(Exception):  # where there is a driver, cuda.core wants a context
            cuda.core.Device(0).set_current()
        with pm.PoolMemoryResource(pm.PinnedMemoryResource()) as pool, pm.Stream() as stream:
            mr = cuda_core.memory_resource(pool)
            assert isinstance(mr, cuda.core.MemoryResource)
            buffer = mr.allocate(1000, stream=stream)
            assert isinstance(buffer, cuda.core.Buffer)
            assert (buffer.is_host_accessible, buffer.is_device_accessible, buffer.device_id) == (True, False, -1)
            assert pool.size_of(int(buffer.handle)) == 1000 == buffer.size
            assert buffer.memory_resource is mr
            buffer.close()
            assert pool.live_bytes == 0
            buffer = mr.allocate(1000, stream=stream)
            del mr, buffer
            assert pool.live_bytes == 0
        kept = cuda_core.memory_resource(pm.PoolMemoryResource()).allocate(10, stream=pm.Stream())
        print("done")
        """
    )
    assert done == "done\n"


def test_memory_of_cuda_core_for_the_host_backend(core: Any) -> None:
    host = pytest.importorskip("portamem.host")
    with contextlib.suppress(Exception):  # where there is a driver, cuda.core wants a context
        core.Device(0).set_current()
    mr = fakes.heap(core)
    with plug.from_cuda_core(mr, device=host.Device(0)) as resource, host.Stream() as stream:
        assert (resource.kind, resource.is_host_accessible, resource.is_stream_ordered) == ("system", True, False)
        with resource.allocate(1000, stream=stream) as buffer:
            assert list(mr.out) == [buffer.handle]
            write(host, buffer, pattern(1000, 1))
            assert read_back(host, buffer) == pattern(1000, 1)
    assert not mr.out
    assert [call[0] for call in mr.calls] == ["allocate", "deallocate"]


def test_on_the_gpu(core: Any) -> None:
    if backend.under_test().backend != "cuda":
        pytest.skip("cuda.core is for NVIDIA GPUs, and the backend under test is another")
    done = python_output(
        """
        import cuda.core as core
        import numpy as np
        import portamem.cuda as pm
        from portamem.plugins import cuda_core
        device = core.Device(0)
        device.set_current()
        theirs = device.create_stream()
        numbers = np.arange(1000, dtype="u1")
        with pm.PoolMemoryResource() as pool:
            mr = cuda_core.memory_resource(pool)
            first, second = mr.allocate(1000, stream=theirs), mr.allocate(1000, stream=theirs)
            assert (first.device_id, first.is_device_accessible, first.is_host_accessible) == (0, True, False)
            ours = pm.Buffer.from_handle(int(first.handle), 1000, owner=first, stream=theirs)
            ours.copy_from(numbers, stream=theirs)
            second.copy_from(first, stream=theirs)
            back = np.empty_like(numbers)
            pm.Buffer.from_handle(int(second.handle), 1000, owner=second, stream=theirs).copy_to(back, stream=theirs)
            theirs.sync()
            assert (back == numbers).all()
            third = first.copy_to(stream=theirs)
            assert pool.live_bytes == 3000
            ours.close()
            first.close(theirs)
            second.close()
            del third, ours
            pm.Device(0).synchronize()
            assert pool.live_bytes == 0, pool.live_bytes
        for kind in (pm.PinnedMemoryResource, pm.ManagedMemoryResource):
            with pm.PoolMemoryResource(kind()) as pool:
                buffer = cuda_core.memory_resource(pool).allocate(1000, stream=theirs)
                assert buffer.is_device_accessible and buffer.is_host_accessible
                buffer.close(theirs)
        with cuda_core.from_cuda_core(core.DeviceMemoryResource(device)) as resource, pm.Stream() as stream:
            assert (resource.kind, resource.device, resource.is_stream_ordered) == ("async", pm.Device(0), True)
            with resource.allocate(1000, stream=stream) as buffer:
                buffer.copy_from(numbers, stream=stream)
                back = np.empty_like(numbers)
                buffer.copy_to(back, stream=stream).synchronize()
                assert (back == numbers).all()
            resource.allocate(1000, stream=pm.Device(0).default_stream).close()
        with cuda_core.from_cuda_core(core.LegacyPinnedMemoryResource()) as resource:
            assert (resource.kind, resource.is_stream_ordered) == ("pinned", False)
            with resource.allocate(1000) as buffer:
                memoryview(buffer)[:] = bytes(1000)
        print("done")
        """
    )
    assert done == "done\n"
