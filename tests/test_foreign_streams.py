"""Streams of vendor packages and of other backends: taken by type, or refused in words."""

from __future__ import annotations

from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from helpers import backend, partners

import portamem


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


class Theirs:
    """A stream of another library, as far as its protocol goes."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def test_an_object_is_one_stream_for_as_long_as_that_is_kept(pm: ModuleType, stream: Any) -> None:
    theirs = Theirs(stream.handle)
    wrapped = pm.Stream.wrap(theirs)
    first = wrapped.identity
    assert pm.Stream.wrap(theirs).identity == first
    with pm.PinnedMemoryResource() as pinned, pinned.allocate(256, stream=theirs) as buffer:
        assert buffer.stream.identity == first
    del wrapped, buffer
    stream.synchronize()
    assert pm.Stream.wrap(theirs).identity != first


@pytest.mark.parametrize("uses", [1, 100])
@pytest.mark.parametrize("kind", ["DeviceMemoryResource", "PinnedMemoryResource"])
def test_a_trim_of_a_foreign_stream_gives_its_memory_back(pm: ModuleType, stream: Any, kind: str, uses: int) -> None:
    """No Stream is kept for the object, and bare handles have an identity of their own on each thread."""
    theirs = Theirs(stream.handle)
    with pm.PoolMemoryResource(getattr(pm, kind)()) as pool:
        for named in (theirs, pm.Stream.from_handle(stream.handle)):
            for _ in range(uses):
                pool.allocate("20 MiB", stream=named).close()
                pool.allocate(1000, stream=named).close()
            assert pool.stats().reserved > 0
            pool.trim(stream=named)
            assert pool.stats().reserved == 0
        freeing = Thread(target=lambda: pool.allocate("20 MiB", stream=theirs).close())
        freeing.start()
        freeing.join()
        pool.trim(stream=theirs)
        assert pool.stats().reserved == 0


def test_a_stream_that_is_wrapped_once_finds_its_memory_at_hand(pm: ModuleType, stream: Any) -> None:
    theirs = Theirs(stream.handle)
    wrapped = pm.Stream.wrap(theirs)
    with pm.PoolMemoryResource() as pool:
        for _ in range(10):
            pool.allocate(4096, stream=wrapped).close()
        stats = pool.stats()
        assert (stats.misses, stats.steals) == (1, 0)
        stream.synchronize()
