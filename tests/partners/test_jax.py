"""JAX as a partner: an array over the same memory, or a refusal that says why. JAX itself copies in silence."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import write

WIDE = ("int64", "uint64", "float64", "complex128")


@pytest.fixture(scope="module")
def jax(pm: ModuleType) -> Any:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not here: pip install jax")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of every device's memory
    before = pm.Device.current()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may warn of itself at import
        module = importlib.import_module("jax")
    module.devices()  # the first question opens every device, whichever is current then
    before.set_current()
    return module


@pytest.fixture
def wide(jax: Any) -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def narrow(jax: Any) -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


def test_memory_is_shared_and_kept(pm: ModuleType, jax: Any, make_resource: Callable[[str], Any]) -> None:
    resource = make_resource("pinned")
    numbers = np.arange(32, dtype=np.float32).reshape(4, 8)
    buf = resource.allocate(numbers.nbytes)
    write(pm, buf, numbers.tobytes())
    view = buf.view("float32", (4, 8))
    array = view.to_jax()
    assert array.unsafe_buffer_pointer() == view.handle
    assert (array.shape, array.dtype) == ((4, 8), np.float32)
    assert float(array.sum()) == numbers.sum()
    view.close()
    with pytest.raises(BufferError, match="DLPack"):
        buf.close()
    del buf, view
    gc.collect()
    assert resource.live_buffers == 1
    del array
    gc.collect()
    assert resource.live_buffers == 0


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint8", "int16", "uint32", "float16", "bfloat16", "float32", "complex64"]
)
def test_element_types(jax: Any, narrow: None, pinned_resource: Any, name: str) -> None:
    with pinned_resource.allocate(64) as buf, buf.view(name, 4) as view:
        buf.fill(0)
        array = view.to_jax()
        assert (array.dtype, array.unsafe_buffer_pointer()) == (view.dtype, view.handle)
        del array
        gc.collect()


@pytest.mark.parametrize("name", WIDE)
def test_types_of_64_bits_need_them_enabled(jax: Any, narrow: None, pinned_resource: Any, name: str) -> None:
    with pinned_resource.allocate(64) as buf, buf.view(name, 4) as view:
        with pytest.raises(BufferError, match=rf'half the bits of {name} .*"jax_enable_x64", True'):
            view.to_jax()
        assert buf.exports == 1


@pytest.mark.parametrize("name", WIDE)
def test_types_of_64_bits_where_they_are(jax: Any, wide: None, pinned_resource: Any, name: str) -> None:
    with pinned_resource.allocate(64) as buf, buf.view(name, 4) as view:
        array = view.to_jax()
        assert (array.dtype, array.unsafe_buffer_pointer()) == (name, view.handle)
        del array
        gc.collect()


def test_memory_that_jax_would_copy(jax: Any, pinned_resource: Any) -> None:
    with pinned_resource.allocate(4096) as buf, buf.view("float32", (8, 8)) as view:
        with buf.view("float32", 8, offset=4) as other, pytest.raises(BufferError, match=r"aligned.*multiple of 64"):
            other.to_jax()
        with view[:, ::2] as gaps, pytest.raises(BufferError, match=r"stri.*without gaps"):
            gaps.to_jax()
        with view.T as turned:
            array = turned.to_jax()
            assert array.unsafe_buffer_pointer() == view.handle
            del array
        gc.collect()
        assert buf.exports == 1


def test_no_elements(jax: Any, pinned_resource: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view("float32", (0, 4)) as view:
        assert view.to_jax().shape == (0, 4)
        gc.collect()


def test_memory_that_jax_does_not_reach(jax: Any, device_resource: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAX that has the CPU alone."""
    from portamem.interop import tensors

    monkeypatch.setattr(tensors, "_has_platform", lambda jax, platform: platform == "cpu")
    with device_resource.allocate(64) as buf, buf.view("float32") as view:
        if view.is_host_accessible:
            pytest.skip("this memory is the host's as well")
        with pytest.raises(BufferError, match="the JAX that is installed here cannot use device memory"):
            view.to_jax()


def test_read_only_memory_is_refused(pm: ModuleType, jax: Any) -> None:
    fixed = np.arange(16, dtype=np.float32)
    fixed.flags.writeable = False
    with pm.from_any(fixed) as view, pytest.raises(BufferError, match=r"read-only, and JAX.*donates"):
        view.to_jax()


def test_declared_work_has_run(jax: Any, pinned_resource: Any, stream: Any, latch: Callable[[Any], Any]) -> None:
    with pinned_resource.allocate(4096) as buf, buf.view("uint8") as view:
        buf.fill(0)
        view.to_jax()  # what JAX loads at first use is loaded
        gc.collect()
        held = latch(stream)
        buf.fill(9, stream=stream)
        held.release_soon()
        array = view.to_jax()
        assert int(array.min()) == 9
        del array
        gc.collect()
