"""Buffers of every kind: contents, sub-views, exports, closing, giving up ownership, foreign memory."""

from __future__ import annotations

import gc
import weakref
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, allocate, overlapping, pattern, read_back, write


@pytest.fixture
def buf(resource: Any) -> Any:
    """4 KiB of every kind of memory in turn. Its close is the test's, or the garbage collector's."""
    return allocate(resource, 4096)


@pytest.mark.parametrize("nbytes", [1, 7, 255, 4096, 65537, MIB + 3])
def test_it_holds_every_byte(pm: ModuleType, resource: Any, nbytes: int) -> None:
    data = pattern(nbytes, seed=nbytes)
    with allocate(resource, nbytes) as buf:
        assert buf.nbytes == len(buf) == nbytes
        write(pm, buf, data)
        assert read_back(pm, buf) == data


def test_what_it_says_of_itself(pm: ModuleType, resource: Any, kind: Any) -> None:
    with allocate(resource, 4096) as buf:
        assert buf.handle != 0
        assert buf.handle % 256 == 0
        assert buf.backend == pm.backend
        assert buf.kind == resource.kind == kind.kind
        assert buf.device == resource.device
        assert buf.device_id == resource.device_id == (-1 if kind.host_memory else buf.device.ordinal)
        assert buf.resource is resource
        assert buf.is_host_accessible == resource.is_host_accessible
        assert buf.is_device_accessible == resource.is_device_accessible
        assert resource.is_stream_ordered == kind.stream_ordered
        assert not buf.is_closed
        assert buf.exports == 0
        assert "4096" in repr(buf)
        assert kind.kind in repr(buf)


def test_a_resource_counts_what_is_out(pm: ModuleType, resource: Any) -> None:
    assert (resource.live_buffers, resource.live_bytes) == (0, 0)
    first, second = allocate(resource, 1000), allocate(resource, 24)
    assert (resource.live_buffers, resource.live_bytes) == (2, 1024)
    first.close()
    assert (resource.live_buffers, resource.live_bytes) == (1, 24)
    second.close()
    assert (resource.live_buffers, resource.live_bytes) == (0, 0)


def test_live_buffers_do_not_overlap(pm: ModuleType, resource: Any) -> None:
    buffers = [allocate(resource, 100 + 37 * number) for number in range(50)]
    assert overlapping(buffers) == []
    for number, buf in enumerate(buffers):
        buf.fill(number)
    for number, buf in enumerate(buffers):
        assert read_back(pm, buf) == bytes([number]) * buf.nbytes
        buf.close()


def test_nothing_at_all(pm: ModuleType, resource: Any) -> None:
    with allocate(resource, 0) as buf:
        assert (buf.handle, buf.nbytes, len(buf)) == (0, 0, 0)
        buf.fill(1)
        buf.copy_from(b"")
        assert read_back(pm, buf) == b""
        with buf[0:0] as nothing:
            assert nothing.nbytes == 0


def test_close_is_idempotent(buf: Any) -> None:
    buf.close()
    buf.close()
    assert buf.is_closed
    assert "closed" in repr(buf)


def test_the_garbage_collector_gives_memory_back(resource: Any) -> None:
    allocate(resource, 4096)
    gc.collect()
    assert resource.live_buffers == 0


def test_an_exception_closes_the_buffer_and_goes_on(resource: Any) -> None:
    with pytest.raises(KeyError, match="mine"), allocate(resource, 4096) as buf:
        raise KeyError("mine")
    assert buf.is_closed
    assert resource.live_buffers == 0


def test_leaving_with_an_exception_under_an_export(pm: ModuleType, resource: Any) -> None:
    """__exit__ must not hide the exception: the memory goes with the last export."""
    with pytest.raises(KeyError, match="mine"), allocate(resource, 4096) as buf:  # noqa: PT012
        part = buf[:16]
        raise KeyError("mine")
    part.fill(1)
    assert read_back(pm, part) == b"\x01" * 16
    part.close()
    del part, buf
    gc.collect()
    assert resource.live_buffers == 0


def test_leaving_under_an_export_without_an_exception(resource: Any) -> None:
    buf = allocate(resource, 4096)
    with pytest.raises(BufferError, match="export"), buf:
        part = buf[:16]
    part.close()
    buf.close()


def test_close_under_a_sub_view_is_refused(pm: ModuleType, buf: Any) -> None:
    first, second = buf[:16], buf[16:32]
    assert buf.exports == 2
    with pytest.raises(BufferError, match=r"2 exports|2 .*views"):
        buf.close()
    assert not buf.is_closed
    buf.fill(3)
    assert read_back(pm, second) == b"\x03" * 16
    first.close()
    second.close()
    assert buf.exports == 0
    buf.close()


@pytest.mark.parametrize(
    ("key", "start", "stop"),
    [
        (slice(16, 48), 16, 48),
        (slice(None), 0, 4096),
        (slice(None, 10), 0, 10),
        (slice(-10, None), 4086, 4096),
        (slice(100, 10_000), 100, 4096),
        (slice(48, 16), 48, 48),
    ],
)
def test_sub_views_are_slices(pm: ModuleType, buf: Any, key: slice, start: int, stop: int) -> None:
    data = pattern(4096)
    write(pm, buf, data)
    with buf[key] as part:
        assert part.nbytes == stop - start
        assert part.nbytes == 0 or part.handle == buf.handle + start
        assert part.kind == buf.kind
        assert part.device_id == buf.device_id
        assert read_back(pm, part) == data[start:stop]
    buf.close()


def test_writing_through_a_sub_view(pm: ModuleType, buf: Any) -> None:
    buf.fill(0)
    with buf[100:200] as part, part[10:20] as inner:
        inner.fill(9)
    expected = bytearray(4096)
    expected[110:120] = b"\x09" * 10
    assert read_back(pm, buf) == bytes(expected)
    buf.close()


def test_a_sub_view_keeps_the_memory(pm: ModuleType, resource: Any) -> None:
    buf = allocate(resource, 4096)
    buf.fill(7)
    inner = buf[100:200][10:20]
    del buf
    gc.collect()
    assert resource.live_buffers == 1
    assert read_back(pm, inner) == b"\x07" * 10
    inner.close()
    del inner
    gc.collect()
    assert resource.live_buffers == 0


@pytest.mark.parametrize("key", [slice(None, None, 2), slice(None, None, -1)])
def test_a_sub_view_has_no_step(buf: Any, key: slice) -> None:
    with pytest.raises(ValueError, match="step"):
        buf[key]
    buf.close()


@pytest.mark.parametrize("key", [0, "a", (slice(1), slice(2))])
def test_a_sub_view_is_a_slice_and_nothing_else(buf: Any, key: Any) -> None:
    with pytest.raises(TypeError):
        buf[key]
    buf.close()


def test_giving_up_ownership(pm: ModuleType, resource: Any) -> None:
    buf = allocate(resource, 4096)
    address = buf.handle
    assert buf.release() == address
    assert buf.is_closed
    assert resource.live_buffers == 1, "the memory is still out"
    stream = resource.device.default_stream if resource.is_stream_ordered else None
    with pm.Buffer.from_handle(address, 4096, device=resource.device) as again:
        again.fill(4)
        assert read_back(pm, again) == b"\x04" * 4096
    resource.deallocate(address, 4096, stream=stream)
    assert resource.live_buffers == 0


def test_release_under_a_sub_view_is_refused(buf: Any) -> None:
    part = buf[:16]
    with pytest.raises(BufferError, match="export"):
        buf.release()
    part.close()
    buf.close()


def test_a_resource_with_live_buffers_refuses_to_close(resource: Any) -> None:
    buffers = [allocate(resource, 1000), allocate(resource, 24)]
    with pytest.raises(BufferError, match=r"2 .*1024") as caught:
        resource.close()
    assert "buffer" in str(caught.value)
    assert not resource.is_closed
    for buf in buffers:
        buf.close()
    resource.close()
    assert resource.is_closed
    resource.close()


def test_a_buffer_keeps_its_resource(pm: ModuleType, device: Any, kind: Any) -> None:
    resource = kind(pm, device)
    buf = allocate(resource, 4096)
    del resource
    gc.collect()
    assert buf.resource.live_buffers == 1
    buf.fill(1)
    buf.close()


def test_foreign_memory(pm: ModuleType, buf: Any) -> None:
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    foreign = pm.Buffer.from_handle(buf.handle, buf.nbytes, owner=owner, device=buf.device)
    assert foreign.kind == "foreign"
    assert foreign.resource is None
    assert foreign.owner is owner
    assert foreign.is_host_accessible == (pm.pointer_info(buf).host_pointer is not None)
    assert foreign.is_device_accessible == buf.is_device_accessible
    foreign.fill(0x5A)
    assert read_back(pm, buf) == b"\x5a" * 4096
    del owner
    gc.collect()
    assert alive() is not None
    foreign.close()
    del foreign
    gc.collect()
    assert alive() is None
    buf.fill(1)
    buf.close()


def test_release_of_foreign_memory(pm: ModuleType, buf: Any) -> None:
    """Foreign memory has an owner elsewhere: there is nothing to give up."""
    foreign = pm.Buffer.from_handle(buf.handle, buf.nbytes, device=buf.device)
    with pytest.raises(ValueError, match="not owned by this buffer"):
        foreign.release()
    foreign.close()
    buf.close()


def test_close_on_a_named_stream(pm: ModuleType, stream: Any, buf: Any) -> None:
    resource = buf.resource
    buf.fill(1, stream=stream)
    buf.close(stream=stream)
    stream.synchronize()
    assert resource.live_buffers == 0


def test_calls_with_wrong_arguments_are_refused_as_pythons_own(make_resource: Any) -> None:
    resource = make_resource("device")
    refused = {
        "needs the argument 'nbytes'": lambda: resource.allocate(),
        "takes 1 positional": lambda: resource.allocate(1, None),
        "unexpected keyword argument 'size'": lambda: resource.allocate(size=1),
        "argument twice": lambda: resource.allocate(1, nbytes=1),
    }
    for message, call in refused.items():
        with pytest.raises(TypeError, match=message):
            call()
    with resource.allocate(nbytes=16) as buf:
        with pytest.raises(TypeError, match="takes 0 positional"):
            buf.close(None)
        with pytest.raises(TypeError, match="unexpected keyword argument 'on'"):
            buf.close(on=None)
        keywords = {"".join(("str", "eam")): None}  # spelt out at run time: another object than the name in the code
        buf.close(**keywords)
        assert buf.is_closed
    assert resource.live_buffers == 0


def test_buffers_are_made_by_resources_alone(pm: ModuleType) -> None:
    for cls in (pm.Buffer, pm.PitchedBuffer):
        with pytest.raises(TypeError, match="cannot create"):
            cls()


def test_objects_that_were_never_made_are_refused(pm: ModuleType, make_resource: Any) -> None:
    blank_resource, blank_stream = (cls.__new__(cls) for cls in (pm.DeviceMemoryResource, pm.Stream))
    with pytest.raises(TypeError, match="without its __init__"):
        blank_resource.allocate(16)
    with pytest.raises(TypeError, match="without its __init__"):
        make_resource("device").allocate(16, stream=blank_stream)
