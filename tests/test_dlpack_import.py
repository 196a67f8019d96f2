"""DLPack in: the facade, asarray, and partners that are missing. The rest is in the contract."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import portamem
from portamem.conformance.kit.dlpack import Producer


def host_floats(count: int = 24) -> Any:
    return np.arange(count, dtype=np.float32)


def producer(array: Any, shape: tuple[int, ...] | None = None, cls: type[Producer] = Producer, **fields: Any) -> Any:
    """A producer of the memory of a NumPy array."""
    return cls(array.ctypes.data, array.shape if shape is None else shape, memory=array, **fields)


def test_the_facade(pm: ModuleType) -> None:
    array = host_floats()
    for take in (portamem.from_dlpack, portamem.View.from_dlpack):
        assert take(array).handle == array.ctypes.data


def test_asarray_copies_host_data(pm: ModuleType, make_resource: Callable[[str], Any]) -> None:
    class Wrapped(Producer):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.memory

    array = host_floats()
    theirs = producer(array, cls=Wrapped)
    with pm.asarray(theirs, resource=make_resource("pinned")) as view:
        assert view.handle != array.ctypes.data
        assert np.array_equal(view.to_numpy(), array)


def test_asarray_prefers_dlpack(pm: ModuleType, device_resource: Any, stream: Any) -> None:
    """An array interface may say nothing of the producer's stream; a DLPack producer orders by itself."""
    if pm.backend == "host":
        pytest.skip("the host backend is no GPU")
    with device_resource.allocate(96) as buf, buf.view("float32") as ours:

        class Both(Producer):
            @property
            def __cuda_array_interface__(self) -> Any:
                raise AssertionError("the array interface was asked")

        theirs = Both(buf.handle, (24,), memory=ours, device=ours.__dlpack_device__())
        with pm.asarray(theirs, stream=stream) as view:
            assert theirs.calls[0]["stream"] == stream.handle
            assert view.handle == buf.handle
        del view
        gc.collect()


@pytest.mark.parametrize(("method", "package"), [("to_torch", "torch"), ("to_cupy", "cupy"), ("to_jax", "jax")])
def test_a_partner_that_is_missing(
    pinned_resource: Any, monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    with (
        pinned_resource.allocate(64) as buf,
        buf.view() as view,
        pytest.raises(ImportError, match=rf"View.{method} needs .*install {package}"),
    ):
        getattr(view, method)()
