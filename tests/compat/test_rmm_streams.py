# SPDX-License-Identifier: MIT
"""RMM's streams and pools of streams."""

from __future__ import annotations

import threading

import pytest


@pytest.fixture
def streams(rmm):
    return rmm.pylibrmm.stream


class Theirs:
    """A stream of another library."""

    def __init__(self, handle: int, version: int = 0) -> None:
        self.handle, self.version = handle, version

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.version, self.handle


def test_a_new_stream_runs_work_in_order(rmm, streams, device):
    stream = streams.Stream()
    buffer = rmm.DeviceBuffer.to_device(b"abc", stream=stream)
    other = rmm.DeviceBuffer(size=3, stream=stream)
    other.copy_from_device(buffer, stream=stream)
    stream.synchronize()
    assert other.tobytes(stream) == b"abc"
    assert not stream.is_default()
    version, number = stream.__cuda_stream__()
    assert (version, number) == (0, stream.on(device).handle)


@pytest.mark.parametrize(("flags", "is_nonblocking"), [(None, False), ("SYNC_DEFAULT", False), ("NON_BLOCKING", True)])
def test_flags(streams, device, flags, is_nonblocking):
    stream = streams.Stream(flags=None if flags is None else streams.CudaStreamFlags[flags])
    assert stream.on(device).is_nonblocking == is_nonblocking
    with pytest.raises(ValueError, match="flags may only be specified when obj is None"):
        streams.Stream(stream, flags=streams.CudaStreamFlags.NON_BLOCKING)
    with pytest.raises(ValueError, match="7"):
        streams.Stream(flags=7)


def test_streams_are_equal_by_their_number(streams, stream):
    first, second = streams.Stream(), streams.Stream()
    again = streams.Stream(first)
    assert first == again
    assert hash(first) == hash(again)
    assert first != second
    assert first != 3
    assert len({first, second, again}) == 2
    assert streams.Stream(stream) == streams.Stream(Theirs(stream.handle))
    assert f"{first.__cuda_stream__()[1]:#x}" in repr(first)


def test_default_streams_are_those_of_the_device_at_hand(rmm, streams, pm, device):
    legacy = device.default_stream
    for stream in (streams.DEFAULT_STREAM, streams.LEGACY_DEFAULT_STREAM):
        assert stream.is_default()
        assert stream.on(device) == legacy
    assert streams.PER_THREAD_DEFAULT_STREAM.on(device) == device.per_thread_stream
    assert not streams.PER_THREAD_DEFAULT_STREAM.is_default()
    three = (streams.DEFAULT_STREAM, streams.LEGACY_DEFAULT_STREAM, streams.PER_THREAD_DEFAULT_STREAM)
    assert [each.__cuda_stream__() for each in three] == [(0, 0), (0, 1), (0, 2)]
    assert [streams.Stream(Theirs(number)) for number in (0, 1, 2)] == list(three)
    assert streams.Stream(device.default_stream).is_default()
    for each in three:
        buffer = rmm.DeviceBuffer.to_device(b"abc", stream=each)
        each.synchronize()
        assert buffer.tobytes(each) == b"abc"


def test_the_per_thread_stream_is_the_calling_threads(rmm, streams, device):
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    seen = []

    def work():
        stream = streams.PER_THREAD_DEFAULT_STREAM
        seen.append(stream.on(device) == device.per_thread_stream)
        seen.append(rmm.DeviceBuffer.to_device(b"abc", stream=stream).tobytes(stream))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True, b"abc"]


def test_streams_on_another_device(rmm, streams, pm, two_devices):
    mr = rmm.mr.DeviceMemoryResource(pm.DeviceMemoryResource(1))
    buffer = rmm.DeviceBuffer(size=3, mr=mr)
    buffer.copy_from_host(b"abc")
    assert buffer.buffer.stream == two_devices[1].default_stream
    assert buffer.tobytes() == b"abc"
    with pytest.raises(ValueError, match="the stream belongs to device 0, the resource to device 1"):
        rmm.DeviceBuffer(size=3, stream=streams.Stream(), mr=rmm.mr.PoolMemoryResource(mr))


def test_streams_of_others_are_taken_everywhere(rmm, streams, stream):
    theirs = Theirs(stream.handle)
    for each in (theirs, stream, streams.Stream(theirs)):
        buffer = rmm.DeviceBuffer.to_device(b"abc", stream=each)
        assert buffer.tobytes(each) == b"abc"
        assert buffer.stream.__cuda_stream__() == (0, stream.handle)


def test_a_stream_keeps_that_of_others_alive(streams, pm):
    class Owner:
        def __init__(self):
            self.stream = pm.Stream()

        def __cuda_stream__(self):
            return 0, self.stream.handle

    import gc
    import weakref

    owner = Owner()
    seen, stream = weakref.ref(owner), streams.Stream(owner)
    del owner
    gc.collect()
    assert seen() is not None
    stream.synchronize()
    del stream
    gc.collect()
    assert seen() is None


def test_numbas_streams_say_their_number_as_an_int(streams, stream):
    class Numbas:
        __module__ = "numba.cuda.cudadrv.driver"

        def __init__(self, number):
            self.number = number

        def __int__(self):
            return self.number

    assert streams.Stream(Numbas(stream.handle)) == streams.Stream(stream)
    assert streams.Stream(Numbas(0)) == streams.DEFAULT_STREAM


def test_cupys_streams_have_a_ptr(streams, stream):
    class Cupys:
        ptr = stream.handle

    assert streams.Stream(Cupys()) == streams.Stream(stream)


def test_what_is_no_stream_is_refused(streams):
    with pytest.raises(NotImplementedError, match="version: '1'"):
        streams.Stream(Theirs(2, version=1))
    for wrong in ("stream", object(), 1.5):
        with pytest.raises(TypeError, match="a stream is"):
            streams.Stream(wrong)


def test_a_pool_hands_its_streams_out_in_turn(rmm, streams, device):
    pool = rmm.pylibrmm.CudaStreamPool(pool_size=3)
    found = [pool.get_stream() for _ in range(4)]
    assert len(set(found)) == pool.get_pool_size() == 3
    assert found[3] == found[0]
    assert [pool.get_stream(number) for number in range(5)] == [*found[:3], *found[:2]]
    assert not any(each.on(device).is_nonblocking for each in found)
    beside = rmm.pylibrmm.cuda_stream_pool.CudaStreamPool(2, streams.CudaStreamFlags.NON_BLOCKING)
    assert beside.get_stream().on(device).is_nonblocking
    assert rmm.pylibrmm.CudaStreamPool().get_pool_size() == 16


def test_streams_outlive_their_pool(rmm):
    stream = rmm.pylibrmm.CudaStreamPool(1).get_stream()
    buffer = rmm.DeviceBuffer.to_device(b"abc", stream=stream)
    assert buffer.tobytes(stream) == b"abc"


def test_pools_that_make_no_sense(rmm):
    with pytest.raises(ValueError, match="at least one stream"):
        rmm.pylibrmm.CudaStreamPool(0)
    with pytest.raises(ValueError, match="not negative"):
        rmm.pylibrmm.CudaStreamPool(-1)
    with pytest.raises(ValueError, match="not negative"):
        rmm.pylibrmm.CudaStreamPool(1).get_stream(-1)
    with pytest.raises(ValueError, match="7"):
        rmm.pylibrmm.CudaStreamPool(1, flags=7)
