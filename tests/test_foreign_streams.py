"""Streams of other libraries: taken by protocol or by type, kept alive, refused in words where they cannot serve."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers import backend, partners
from helpers.latch import Latch
from helpers.memory import read_back

import portamem


class ForeignStream:
    """What a library with ``__cuda_stream__`` gives."""

    def __init__(self, handle: int, version: int = 0) -> None:
        self._answer = (version, handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return self._answer


def test_our_own_speak_the_protocol(stream: Any) -> None:
    assert stream.__cuda_stream__() == (0, stream.handle)


def test_wrap(pm: ModuleType, device: Any, stream: Any) -> None:
    foreign = ForeignStream(stream.handle)
    wrapped = pm.Stream.wrap(foreign)
    assert wrapped.handle == stream.handle
    wrapped.close()
    assert not stream.is_closed
    stream.synchronize()


def test_wrapping_our_own_is_no_change(pm: ModuleType, stream: Any) -> None:
    assert pm.Stream.wrap(stream) is stream


def test_a_wrapped_stream_keeps_its_object(pm: ModuleType, stream: Any) -> None:
    foreign = ForeignStream(stream.handle)
    alive = weakref.ref(foreign)
    wrapped = pm.Stream.wrap(foreign)
    del foreign
    gc.collect()
    assert alive() is not None
    del wrapped
    gc.collect()
    assert alive() is None


def test_every_call_takes_one(
    pm: ModuleType, device: Any, stream: Any, latch: Callable[[Any], Latch], make_resource: Callable[[str], Any]
) -> None:
    foreign = ForeignStream(stream.handle)
    pool, pinned = make_resource("async"), make_resource("pinned")
    with pool.allocate(4096, stream=foreign) as buf, pinned.allocate(4096) as target:
        held = latch(stream)
        buf.fill(3, stream=foreign)
        done = pm.copy(target, buf, stream=foreign)
        buf.record_stream(foreign)
        with pm.Event(device) as event:
            event.record(foreign)
            assert not event.query()
            assert not done.query()
            held.release()
            event.synchronize()
        assert read_back(pm, target) == b"\x03" * 4096
        buf.close(stream=foreign)
    stream.synchronize()


def test_the_default_streams_by_number(pm: ModuleType, device: Any) -> None:
    """0 is the default stream on every backend; 1 is the legacy one by its CUDA number."""
    for number in (0, 1):
        wrapped = pm.Stream.wrap(ForeignStream(number))
        assert wrapped.is_default
        wrapped.synchronize()


def test_one_object_may_stand_for_the_default_stream_of_any_device(
    pm: ModuleType, two_devices: tuple[Any, Any]
) -> None:
    """CuPy's null stream is one object, and means the device that is current where it is used."""
    foreign = ForeignStream(0)
    for device in (*two_devices, two_devices[0]):
        device.set_current()
        assert pm.Stream.wrap(foreign).device == device


def test_one_object_may_stand_for_the_own_stream_of_any_thread(pm: ModuleType, stream: Any) -> None:
    foreign = ForeignStream(2)
    identities = {pm.Stream.wrap(foreign).identity}

    def elsewhere() -> None:
        wrapped = pm.Stream.wrap(foreign)
        wrapped.synchronize()
        identities.add(wrapped.identity)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(identities) == 2


def test_an_unknown_version_is_refused(pm: ModuleType, stream: Any) -> None:
    with pytest.raises(TypeError, match=r"version 1.*version 0"):
        pm.Stream.wrap(ForeignStream(stream.handle, version=1))


@pytest.mark.parametrize("number", [0, 1, 12345])
def test_a_number_is_refused(pm: ModuleType, device_resource: Any, number: int) -> None:
    """A bare integer may be anything: the message names the call for handles."""
    with pytest.raises(TypeError, match=r"from_handle"):
        pm.Stream.wrap(number)
    with device_resource.allocate(16) as buf, pytest.raises(TypeError, match=r"from_handle"):
        buf.fill(0, stream=number)


@pytest.mark.parametrize("wrong", ["stream", 1.5, object(), b""])
def test_what_is_no_stream(pm: ModuleType, device_resource: Any, wrong: Any) -> None:
    with device_resource.allocate(16) as buf, pytest.raises(TypeError, match="__cuda_stream__"):
        buf.fill(0, stream=wrong)


def test_a_protocol_that_raises(pm: ModuleType) -> None:
    class Broken:
        def __cuda_stream__(self) -> tuple[int, int]:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        pm.Stream.wrap(Broken())


@pytest.mark.parametrize("answer", [None, 7, (0,), (0, "x"), (0, 1, 2)])
def test_a_protocol_that_answers_nonsense(pm: ModuleType, answer: Any) -> None:
    class Nonsense:
        def __cuda_stream__(self) -> Any:
            return answer

    with pytest.raises((TypeError, ValueError)):
        pm.Stream.wrap(Nonsense())


def test_a_cuda_python_stream(pm: ModuleType, stream: Any) -> None:
    foreign = partners.cuda_runtime().cudaStream_t(stream.handle)
    if pm.backend == "cuda":
        assert pm.Stream.wrap(foreign).handle == stream.handle
        return
    with pytest.raises(TypeError, match=rf"cuda backend.*{pm.backend} backend"):
        pm.Stream.wrap(foreign)


def test_a_cuda_driver_stream(pm: ModuleType, stream: Any) -> None:
    foreign = partners.cuda_driver().CUstream(stream.handle)
    if pm.backend == "cuda":
        assert pm.Stream.wrap(foreign).handle == stream.handle
        return
    with pytest.raises(TypeError, match=rf"cuda backend.*{pm.backend} backend"):
        pm.Stream.wrap(foreign)


def test_a_hip_python_stream(pm: ModuleType, stream: Any) -> None:
    hip = partners.hip_python()
    foreign = hip.ihipStream_t(stream.handle)
    if pm.backend == "hip":
        assert pm.Stream.wrap(foreign).handle == stream.handle
        return
    with pytest.raises(TypeError, match=rf"hip backend.*{pm.backend} backend"):
        pm.Stream.wrap(foreign)


@pytest.mark.parametrize("name", backend.others())
def test_our_stream_of_another_backend(pm: ModuleType, stream: Any, name: str) -> None:
    """A handle of one runtime means nothing to another: refused before either is called."""
    if not backend.is_built(name):
        pytest.skip(f"the {name} backend is not built")
    other = getattr(portamem, name)
    with pytest.raises(TypeError, match=rf"{pm.backend} backend.*{name} backend"):
        other.Stream.wrap(stream)
