"""Streams of vendor packages and of other backends: taken by type, or refused in words."""

from __future__ import annotations

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
