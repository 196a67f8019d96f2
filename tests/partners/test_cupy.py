"""CuPy as a partner: memory goes both ways without a copy, in the order of the streams that each side names."""

from __future__ import annotations

import gc
import importlib.util
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.latch import Latch
from helpers.memory import allocate, read_back

NBYTES = 64 << 10
KINDS = ("device", "managed", "pinned", "async")
INTERFACES = pytest.mark.parametrize("interface", ["dlpack", "array interface"])

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def cupy(pm: ModuleType, device: Any) -> Any:
    """CuPy, where it drives the device under test. An array was made there: what it loads at first use is loaded."""
    if pm.backend == "host":
        pytest.skip("the host backend is no GPU")
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not here: pip install the package for this device")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may warn of itself at import
        made: Any = importlib.import_module("cupy")
    if bool(made.cuda.runtime.is_hip) != device.arch.startswith("gfx"):
        pytest.skip("the CuPy that is here does not drive this device")
    warm = made.zeros(NBYTES, made.uint8)
    warm.fill(1)
    made.copyto(made.empty_like(warm), warm)
    assert int((warm == 1).all())
    made.cuda.runtime.deviceSynchronize()
    return made


def stream_of(cupy: Any, stream: Any) -> Any:
    """Our stream as CuPy's. From release 14 on CuPy takes any object with __cuda_stream__."""
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(stream)
    return cupy.cuda.ExternalStream(stream.handle)


class OnlyArrayInterface:
    """An array as a library without DLPack would show it."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_shared(pm: ModuleType, cupy: Any, make_resource: Callable[[str], Any], kind: str) -> None:
    with allocate(make_resource(kind), NBYTES) as buf, buf.view("float32", (64, 256)) as view:
        array = view.to_cupy()
        assert (array.data.ptr, array.shape, array.dtype) == (view.handle, (64, 256), np.float32)
        array.fill(1.5)
        cupy.cuda.runtime.deviceSynchronize()
        assert (view.to_numpy() == 1.5).all()
        view.fill(0)
        assert not array.any().item()
        with pytest.raises(BufferError, match="DLPack"):
            buf.close()
        del array
        gc.collect()


@pytest.mark.parametrize("kind", ["device", "managed", "async"])
def test_cupy_takes_it_by_itself(cupy: Any, make_resource: Callable[[str], Any], kind: str) -> None:
    """CuPy's own import knows device memory and managed memory."""
    with allocate(make_resource(kind), NBYTES) as buf, buf.view("int32") as view:
        buf.fill(2)
        array = cupy.from_dlpack(view)
        assert array.data.ptr == view.handle
        assert (array == 0x02020202).all().item()
        del array
        gc.collect()


def test_an_array_keeps_the_memory(cupy: Any, make_resource: Callable[[str], Any]) -> None:
    resource = make_resource("device")
    buf = resource.allocate(NBYTES)
    buf.fill(7)
    array = buf.view().to_cupy()
    part = array[10:20]
    del buf, array
    gc.collect()
    assert resource.live_buffers == 1
    assert (part == 7).all().item()
    del part
    gc.collect()
    assert resource.live_buffers == 0


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint8", "int16", "uint32", "int64", "float16", "float64", "complex64", "complex128"]
)
def test_element_types(pm: ModuleType, cupy: Any, device_resource: Any, name: str) -> None:
    with device_resource.allocate(64) as buf, buf.view(name, 4) as view:
        buf.fill(0)
        assert view.to_cupy().dtype == np.dtype(name)
        theirs = cupy.ones(4, name)
        with pm.from_dlpack(theirs) as ours:
            assert (ours.dtype, ours.handle) == (name, theirs.data.ptr)
            assert np.array_equal(ours.to_numpy(), cupy.asnumpy(theirs))
        del ours
        gc.collect()


@INTERFACES
@pytest.mark.parametrize("ours", [True, False], ids=["our stream", "their stream"])
@pytest.mark.parametrize("kind", KINDS)
def test_their_stream_waits_for_our_work(
    cupy: Any,
    stream: Any,
    other_stream: Any,
    latch: Callable[[Any], Latch],
    make_resource: Callable[[str], Any],
    kind: str,
    ours: bool,
    interface: str,
) -> None:
    """Work that CuPy queues on its current stream sees the data written behind the latch.

    Through DLPack the host does not wait. On an array interface CuPy itself waits for the stream that it names.
    """
    seen = cupy.zeros(NBYTES, cupy.uint8)
    theirs = stream_of(cupy, other_stream) if ours else cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    with allocate(make_resource(kind), NBYTES, stream) as buf, buf.view("uint8") as view:
        buf.fill(0, stream=stream)
        stream.synchronize()
        held = latch(stream)
        buf.fill(9, stream=stream)
        with theirs:
            if interface == "dlpack":
                array = view.to_cupy()
            else:
                held.release_soon()
                array = cupy.asarray(view)
            assert array.data.ptr == view.handle
            cupy.copyto(seen, array)
            if interface == "dlpack":
                assert not theirs.done
        held.release()
        theirs.synchronize()
        assert (seen == 9).all().item()
        del array
        gc.collect()


@INTERFACES
@pytest.mark.parametrize("ours", [True, False], ids=["our stream", "their stream"])
def test_our_stream_waits_for_their_work(
    pm: ModuleType,
    cupy: Any,
    stream: Any,
    other_stream: Any,
    latch: Callable[[Any], Latch],
    pinned_resource: Any,
    ours: bool,
    interface: str,
) -> None:
    theirs = stream_of(cupy, other_stream) if ours else cupy.cuda.Stream(non_blocking=True)
    wrapped = pm.Stream.wrap(theirs)
    array = cupy.zeros(NBYTES, cupy.uint8)
    cupy.cuda.runtime.deviceSynchronize()
    with pinned_resource.allocate(NBYTES) as seen:
        seen.fill(0)
        held = latch(wrapped)
        with theirs:
            array.fill(9)
            view = pm.asarray(array if interface == "dlpack" else OnlyArrayInterface(array), stream=stream)
        assert (view.handle, view.dtype, view.size) == (array.data.ptr, "uint8", NBYTES)
        seen.copy_from(view, stream=stream)
        assert not stream.query()
        held.release()
        stream.synchronize()
        assert read_back(pm, seen) == b"\x09" * NBYTES
        view.close()
        del view
        gc.collect()


@INTERFACES
def test_without_a_stream_it_is_ready_on_return(
    pm: ModuleType, cupy: Any, latch: Callable[[Any], Latch], pinned_resource: Any, stream: Any, interface: str
) -> None:
    theirs = cupy.cuda.Stream(non_blocking=True)
    array = cupy.zeros(NBYTES, cupy.uint8)
    cupy.cuda.runtime.deviceSynchronize()
    with pinned_resource.allocate(NBYTES, stream=stream) as seen:
        held = latch(pm.Stream.wrap(theirs))
        with theirs:
            array.fill(9)
            held.release_soon()
            view = pm.asarray(array if interface == "dlpack" else OnlyArrayInterface(array))
        assert theirs.done
        seen.copy_from(view, stream=stream)
        stream.synchronize()
        assert read_back(pm, seen) == b"\x09" * NBYTES
        view.close()
        del view
        gc.collect()


def test_memory_goes_back_behind_their_work(
    pm: ModuleType, cupy: Any, latch: Callable[[Any], Latch], pool: Any, stream: Any
) -> None:
    """CuPy lets go of an array while its kernels are still to run: the memory must not be given out before."""
    theirs = cupy.cuda.Stream(non_blocking=True)
    seen = cupy.zeros(NBYTES, cupy.uint8)
    buf = pool.allocate(NBYTES, stream=stream)
    buf.fill(9, stream=stream)
    stream.synchronize()
    with theirs:
        array = buf.view("uint8").to_cupy()
        held = latch(pm.Stream.wrap(theirs))
        cupy.copyto(seen, array)
    del buf
    held.release_soon()
    del array
    gc.collect()
    with pool.allocate(NBYTES, stream=stream) as again:
        again.fill(0, stream=stream)
        stream.synchronize()
    theirs.synchronize()
    assert (seen == 9).all().item()


def test_managed_arrays_come_in(pm: ModuleType, cupy: Any, device: Any) -> None:
    if device.capabilities.managed_mode == "none":
        pytest.skip(f"{device!r} has no memory of kind managed")
    memory = cupy.cuda.malloc_managed(NBYTES)
    array = cupy.ndarray(NBYTES, cupy.uint8, memory)
    array.fill(4)
    with pm.from_dlpack(array) as view:
        assert (view.handle, view.is_host_accessible, view.is_device_accessible) == (array.data.ptr, True, True)
        assert (np.asarray(view) == 4).all()
    del view
    gc.collect()


def test_arrays_with_gaps_come_in_as_they_are(pm: ModuleType, cupy: Any) -> None:
    square = cupy.arange(64, dtype=cupy.float32).reshape(8, 8)
    for array in (square.T, square[:, 1:], square[::2], square[::2, ::3]):
        with pm.from_dlpack(array) as view, pm.asarray(array) as same:
            assert (view.handle, view.shape, view.strides) == (array.data.ptr, array.shape, array.strides)
            assert (same.handle, same.strides) == (view.handle, view.strides)
            back = view.to_cupy()
            assert (back == array).all().item()
            del back
        del view, same
    gc.collect()


def test_memory_that_the_device_does_not_reach(cupy: Any, make_resource: Callable[[str], Any]) -> None:
    resource = make_resource("system")
    with resource.allocate(64) as buf, buf.view() as view:
        if buf.is_device_accessible:
            assert (view.to_cupy() == cupy.asarray(view.to_numpy())).all().item()
            gc.collect()
            return
        with pytest.raises(BufferError, match=r"CuPy .*cannot use system memory"):
            view.to_cupy()
