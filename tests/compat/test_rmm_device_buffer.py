# SPDX-License-Identifier: MIT
"""DeviceBuffer: bytes that go in and out, grow, are pickled, and go back where they came from."""

from __future__ import annotations

import copy
import ctypes
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.waiting import close_when_empty

import portamem


class Interface:
    """An object of another library, with nothing but the array interface of GPUs."""

    def __init__(self, ptr: int, shape: tuple[int, ...], typestr: str = "|u1", **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "data": (ptr, False),
            "shape": shape,
            "typestr": typestr,
            "strides": None,
            "version": 3,
            **more,
        }


@pytest.fixture
def counted(rmm):
    """A current resource that counts."""
    made = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    rmm.mr.set_current_device_resource(made)
    return made


@pytest.fixture
def pool(rmm):
    """A current resource whose frees wait for nothing."""
    made = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource())
    rmm.mr.set_current_device_resource(made)
    yield made
    close_when_empty(made.resource)


@pytest.mark.parametrize(
    "data",
    [b"abc", bytearray(b"abc"), memoryview(b"abc"), np.arange(3, dtype="u1"), (ctypes.c_ubyte * 3)(1, 2, 3), b""],
)
def test_bytes_go_in_and_out(rmm, data):
    buffer = rmm.DeviceBuffer.to_device(data)
    assert buffer.tobytes() == bytes(buffer) == bytes(data)
    assert len(buffer) == buffer.size == buffer.nbytes == buffer.__sizeof__() == len(data)
    assert (buffer.ptr != 0) == (len(data) != 0)
    array = buffer.copy_to_host()
    assert (array.dtype, array.tobytes()) == (np.dtype("u1"), bytes(data))


def test_a_copy_to_the_host_fills_what_it_is_given(rmm):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    target = bytearray(b"12345")
    assert buffer.copy_to_host(target) is target
    assert target == b"abc45"


def test_copies_to_the_buffer_leave_the_rest(rmm):
    buffer = rmm.DeviceBuffer.to_device(b"0123456789")
    buffer.copy_from_host(b"ab")
    assert buffer.tobytes() == b"ab23456789"
    buffer.copy_from_device(rmm.DeviceBuffer.to_device(b"xyz"))
    assert buffer.tobytes() == b"xyz3456789"
    buffer.copy_from_device(rmm.DeviceBuffer())
    assert buffer.tobytes() == b"xyz3456789"


def test_an_address_of_device_or_host_memory_is_copied(rmm):
    first = rmm.DeviceBuffer.to_device(b"hello")
    assert rmm.DeviceBuffer(ptr=first.ptr, size=4).tobytes() == b"hell"
    words = ctypes.create_string_buffer(b"words")
    assert rmm.DeviceBuffer(ptr=ctypes.addressof(words), size=5).tobytes() == b"words"
    assert rmm.DeviceBuffer(ptr=first.ptr, size=0).size == 0


def test_functions_copy_between_addresses(rmm):
    from portamem.compat.rmm.pylibrmm import device_buffer as functions

    first, second = rmm.DeviceBuffer.to_device(b"abcdef"), rmm.DeviceBuffer.to_device(bytes(6))
    functions.copy_device_to_ptr(first.ptr, second.ptr, 4)
    functions.copy_host_to_ptr(b"XY", second.ptr + 1)
    found = bytearray(6)
    functions.copy_ptr_to_host(second.ptr, found)
    assert found == b"aXYd\0\0"
    assert functions.to_device(b"q").tobytes() == b"q"
    for nothing in (lambda: functions.copy_device_to_ptr(0, 0, 0), lambda: functions.copy_host_to_ptr(b"", 0)):
        assert nothing() is None


def test_it_grows_and_keeps_its_contents(rmm, counted):
    buffer = rmm.DeviceBuffer.to_device(b"0123456789")
    first = buffer.ptr
    buffer.resize(4)
    assert (buffer.size, buffer.capacity(), buffer.ptr, buffer.tobytes()) == (4, 10, first, b"0123")
    buffer.resize(9)
    assert buffer.tobytes() == b"012345678"
    buffer.resize(3000)
    assert (buffer.size, buffer.capacity(), buffer.tobytes()[:9]) == (3000, 3000, b"012345678")
    buffer.reserve(5000)
    assert (buffer.size, buffer.capacity(), buffer.tobytes()[:9]) == (3000, 5000, b"012345678")
    buffer.reserve(10)
    assert buffer.capacity() == 5000
    assert counted.allocation_counts.current_count == 1
    buffer.resize(0)
    assert (buffer.size, buffer.tobytes()) == (0, b"")


def test_what_cannot_grow_stays_as_it_is(rmm):
    limited = rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 1000)
    buffer = rmm.DeviceBuffer(size=600, mr=limited)
    buffer.copy_from_host(b"kept")
    for grow in (buffer.resize, buffer.reserve):
        with pytest.raises(MemoryError):
            grow(700)
    assert (buffer.size, buffer.capacity(), buffer.tobytes()[:4]) == (600, 600, b"kept")
    assert limited.get_allocated_bytes() == 600


@pytest.mark.parametrize("make", [lambda buffer: buffer.copy(), copy.copy, copy.deepcopy])
def test_a_copy_is_of_its_own(rmm, make):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    made = make(buffer)
    buffer.copy_from_host(b"xyz")
    assert made.tobytes() == b"abc"
    assert made.ptr != buffer.ptr


def test_a_copy_comes_from_the_same_resource(rmm, counted):
    other = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    buffer = rmm.DeviceBuffer(size=50, mr=other)
    made = buffer.copy()
    assert made.mr is buffer.mr is other
    assert other.allocation_counts.current_bytes == 100
    assert counted.allocation_counts.total_bytes == 0


@pytest.mark.parametrize("data", [b"", b"123"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(rmm, data, protocol):
    buffer = rmm.DeviceBuffer.to_device(data)
    assert pickle.loads(pickle.dumps(buffer, protocol=protocol)).tobytes() == data


def test_pickle_out_of_band(rmm):
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(rmm.DeviceBuffer.to_device(b"long contents"), protocol=5, buffer_callback=buffers.append)
    assert [bytes(each) for each in buffers] == [b"long contents"]
    assert b"long contents" not in text
    made = pickle.loads(text, buffers=buffers)
    assert isinstance(made, rmm.DeviceBuffer)
    assert made.tobytes() == b"long contents"


def test_memory_goes_back_at_once_and_where_it_came_from(rmm, counted):
    buffer = rmm.DeviceBuffer(size=300)
    rmm.mr.set_current_device_resource(rmm.mr.ManagedMemoryResource())
    assert buffer.mr is counted
    assert counted.allocation_counts.current_bytes == 300
    del buffer
    assert counted.allocation_counts.current_bytes == 0


def test_a_buffer_keeps_its_resource_alive(rmm):
    freed = []
    below = rmm.mr.CudaMemoryResource()

    def deallocate(ptr, nbytes, stream):
        freed.append(nbytes)
        below.deallocate(ptr, nbytes, stream)

    buffer = rmm.DeviceBuffer(size=70, mr=rmm.mr.CallbackMemoryResource(below.allocate, deallocate))
    buffer.copy_from_host(b"still here")
    assert buffer.tobytes()[:10] == b"still here"
    assert freed == []
    del buffer
    assert freed == [70]


def test_memory_in_use_elsewhere_goes_with_its_last_use(rmm, pm, counted):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    part = buffer.buffer
    assert part.nbytes == 3
    buffer.resize(1000)
    assert counted.allocation_counts.current_count == 2
    del buffer
    assert counted.allocation_counts.current_bytes == 3
    found = bytearray(3)
    pm.copy(found, part)
    assert found == b"abc"
    part.close()
    assert rmm.DeviceBuffer().buffer is None


def test_a_copy_on_a_stream_is_queued(rmm, pm, device, stream, latch, pool):
    source, target, filler = (rmm.DeviceBuffer.to_device(data) for data in (b"new", b"old", b"xxx"))
    held = latch(stream)
    target.copy_from_device(source, stream=stream)
    del source  # its memory goes back behind the copy
    other = rmm.DeviceBuffer(size=3, stream=stream)
    other.copy_from_device(filler, stream=stream)
    assert not stream.query()
    held.release()
    stream.synchronize()
    assert (target.tobytes(), other.tobytes()) == (b"new", b"xxx")


def test_reads_are_done_on_return_on_every_stream(rmm):
    stream = rmm.pylibrmm.stream.Stream()
    data = bytes(range(256)) * 4096
    buffer = rmm.DeviceBuffer.to_device(data, stream=stream)
    assert buffer.tobytes(stream) == data
    assert buffer.copy_to_host(stream=stream).tobytes() == data


def test_a_growth_makes_its_stream_the_buffers(rmm, pool):
    first, second = rmm.pylibrmm.stream.Stream(), rmm.pylibrmm.stream.Stream()
    buffer = rmm.DeviceBuffer(size=100, stream=first)
    buffer.copy_from_host(b"abc", first)
    assert buffer.stream is first
    first.synchronize()
    buffer.resize(5000, second)
    assert buffer.stream is second
    assert buffer.tobytes(second)[:3] == b"abc"
    buffer.resize(10, first)
    assert buffer.stream is first


def test_the_array_interface_describes_the_bytes_in_use(rmm):
    buffer = rmm.DeviceBuffer(size=10)
    buffer.resize(4)
    found = buffer.__cuda_array_interface__
    expected = {"data": (buffer.ptr, False), "shape": (4,), "strides": None, "typestr": "|u1", "version": 0}
    assert found == expected


def test_memory_of_others_is_copied_by_its_array_interface(rmm, stream):
    source, target = rmm.DeviceBuffer.to_device(b"abcdefgh"), rmm.DeviceBuffer.to_device(bytes(10))
    target.copy_from_device(Interface(source.ptr, (2,), "<u4", strides=(4,)))
    assert target.tobytes() == b"abcdefgh\0\0"
    target.copy_from_device(Interface(source.ptr + 2, (3,), stream=stream.handle))
    assert target.tobytes() == b"cdedefgh\0\0"
    target.copy_from_device(Interface(0, (0,)))
    assert target.tobytes() == b"cdedefgh\0\0"


def test_array_interfaces_that_cannot_be_copied(rmm):
    source, target = rmm.DeviceBuffer.to_device(bytes(8)), rmm.DeviceBuffer.to_device(bytes(4))
    with pytest.raises(ValueError, match="no `__cuda_array_interface__`"):
        target.copy_from_device(b"abc")
    with pytest.raises(ValueError, match="2 dimensions"):
        target.copy_from_device(Interface(source.ptr, (2, 2)))
    with pytest.raises(ValueError, match="not C-contiguous"):
        target.copy_from_device(Interface(source.ptr, (2,), strides=(2,)))
    with pytest.raises(ValueError, match="too large: it has 8 bytes, and the buffer 4"):
        target.copy_from_device(source)


@pytest.mark.parametrize(("data", "error"), [(None, TypeError), ("abc", TypeError), (123, TypeError)])
def test_what_has_no_bytes_is_refused(rmm, data, error):
    buffer = rmm.DeviceBuffer(size=10)
    with pytest.raises(error, match="is bytes-like, not"):
        rmm.DeviceBuffer.to_device(data)
    with pytest.raises(error, match="is bytes-like, not"):
        buffer.copy_from_host(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.ones(2, "u2"), "format 'H'"),
        (np.ones(2, "i1"), "format 'b'"),
        (np.ones((2, 2), "u1"), "not one row"),
        (np.ones(4, "u1")[::2], "not one row"),
    ],
)
def test_what_is_no_row_of_bytes_is_refused(rmm, data, words):
    with pytest.raises(ValueError, match=words):
        rmm.DeviceBuffer.to_device(data)


def test_sizes_that_do_not_fit_are_refused(rmm):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    with pytest.raises(ValueError, match="too small: it has 2 bytes of 3"):
        buffer.copy_to_host(bytearray(2))
    with pytest.raises(ValueError, match="too large: it has 4 bytes, and the buffer 3"):
        buffer.copy_from_host(b"abcd")
    with pytest.raises(ValueError, match="read-only"):
        buffer.copy_to_host(b"123")
    for wrong in (lambda: rmm.DeviceBuffer(size=-1), lambda: buffer.resize(-1), lambda: buffer.reserve(-1)):
        with pytest.raises(ValueError, match="not negative"):
            wrong()
    with pytest.raises(TypeError):
        rmm.DeviceBuffer(size="10")
    with pytest.raises(ValueError, match="does not know the address"):
        rmm.DeviceBuffer(ptr=4096, size=10)
    assert buffer.tobytes() == b"abc"


def test_none_is_no_stream(rmm):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    calls = [
        lambda: rmm.DeviceBuffer(size=1, stream=None),
        lambda: rmm.DeviceBuffer.to_device(b"abc", stream=None),
        lambda: buffer.copy_to_host(stream=None),
        lambda: buffer.copy_from_host(b"a", stream=None),
        lambda: buffer.copy_from_device(buffer, stream=None),
        lambda: buffer.tobytes(stream=None),
        lambda: buffer.reserve(9, stream=None),
        lambda: buffer.resize(9, stream=None),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="stream argument cannot be None"):
            call()
    with pytest.raises(TypeError, match="a stream is"):
        buffer.tobytes(stream="default")


@pytest.mark.usefixtures("migrating")
def test_prefetch_moves_managed_memory(rmm, pm, device):
    rmm.mr.set_current_device_resource(rmm.mr.ManagedMemoryResource())
    buffer = rmm.DeviceBuffer(size=4096)
    buffer.prefetch()
    pm.Device().synchronize()
    assert buffer.buffer.range_attribute("last_prefetch_location") == device.ordinal
    buffer.prefetch(-1, stream=rmm.pylibrmm.stream.Stream())
    pm.Device().synchronize()
    assert buffer.buffer.range_attribute("last_prefetch_location") == "host"


@pytest.mark.usefixtures("migrating")
def test_prefetch_moves_managed_memory_of_a_programs_functions(rmm, pm, device):
    below = rmm.mr.ManagedMemoryResource()
    buffer = rmm.DeviceBuffer(size=4096, mr=rmm.mr.CallbackMemoryResource(below.allocate, below.deallocate))
    buffer.prefetch(device)
    pm.Device().synchronize()
    moved = pm.Buffer.from_handle(buffer.ptr, 4096)
    assert moved.range_attribute("last_prefetch_location") == device.ordinal


def test_prefetch_leaves_other_memory_alone(rmm):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    buffer.prefetch()
    rmm.DeviceBuffer().prefetch()
    assert buffer.tobytes() == b"abc"


def test_a_resource_of_portamem_serves_as_well(rmm, pm, device_resource):
    buffer = rmm.DeviceBuffer(size=10, mr=device_resource)
    assert buffer.mr.resource is device_resource
    assert device_resource.live_bytes == 10
    with pytest.raises(TypeError, match="`mr` is a memory resource, not a str"):
        rmm.DeviceBuffer(size=10, mr="pool")
    assert isinstance(buffer.buffer, portamem.Buffer)


def test_a_free_that_is_refused_while_a_buffer_grows_leaves_it_whole(rmm):
    below = rmm.mr.CudaMemoryResource()
    refuses = [True]

    def deallocate(ptr, nbytes, stream):
        if refuses:
            refuses.pop()
            raise RuntimeError("not now")
        below.deallocate(ptr, nbytes, stream)

    buffer = rmm.DeviceBuffer(size=10, mr=rmm.mr.CallbackMemoryResource(below.allocate, deallocate))
    buffer.copy_from_host(b"0123456789")
    buffer.resize(5000)
    assert (buffer.size, buffer.capacity()) == (5000, 5000)
    assert buffer.tobytes()[:10] == b"0123456789"
    del buffer
    assert below.resource.live_buffers == 0


def test_a_copy_of_itself_changes_nothing(rmm):
    buffer = rmm.DeviceBuffer.to_device(b"abc")
    buffer.copy_from_device(buffer)
    assert buffer.tobytes() == b"abc"


def test_a_copy_from_another_device(rmm, two_devices):
    there = portamem.DeviceMemoryResource(two_devices[1])
    theirs = rmm.DeviceBuffer(size=1 << 20, mr=there)
    here = rmm.DeviceBuffer(size=1 << 20)
    for value in range(5):
        theirs.copy_from_host(bytes([value]) * (1 << 20))
        here.copy_from_device(Interface(theirs.ptr, (1 << 20,), stream=None))
        assert here.tobytes() == bytes([value]) * (1 << 20)


def test_what_is_no_function(rmm):
    with pytest.raises(TypeError, match="deallocate_func"):
        rmm.mr.CallbackMemoryResource(len, 2)
    with pytest.raises(TypeError, match="callback"):
        rmm.mr.FailureCallbackResourceAdaptor(rmm.mr.CudaMemoryResource(), None)
