"""DLPack in: tensors of any producer as Views, what is asked of the producer, and when its deleter is called."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.latch import Latch
from helpers.memory import allocate, read_back
from helpers.waiting import eventually

import portamem
from portamem.conformance import dlpack
from portamem.conformance.dlpack import CPU, OldProducer, Producer

KINDS = pytest.mark.parametrize("kind", [dlpack.Legacy, dlpack.Versioned], ids=["legacy", "versioned"])


def host_floats(count: int = 24) -> Any:
    return np.arange(count, dtype=np.float32)


def producer(array: Any, shape: tuple[int, ...] | None = None, cls: type[Producer] = Producer, **fields: Any) -> Any:
    """A producer of the memory of a NumPy array."""
    return cls(array.ctypes.data, array.shape if shape is None else shape, memory=array, **fields)


@KINDS
@pytest.mark.parametrize("cls", [Producer, OldProducer])
def test_a_tensor_becomes_a_view(pm: ModuleType, kind: Any, cls: type[Producer]) -> None:
    array = host_floats()
    theirs = producer(array, (4, 6), cls, kind=kind, strides=(6, 1))
    view = pm.from_dlpack(theirs)
    assert dlpack.name_of(theirs.capsule) == kind.used_name
    assert (view.handle, view.shape, view.dtype) == (array.ctypes.data, (4, 6), "float32")
    assert (view.buffer.kind, view.is_host_accessible, view.device_id) == ("foreign", True, -1)
    assert np.array_equal(view.to_numpy(), array.reshape(4, 6))
    view.fill(0)
    assert not array.any(), "the memory is theirs"
    assert theirs.deleted == []
    assert view.buffer.owner is not None
    del view
    gc.collect()
    assert theirs.deleted == [ctypes.addressof(theirs.managed)]


def test_what_is_asked_of_the_producer(pm: ModuleType) -> None:
    new, old = producer(host_floats()), producer(host_floats(), cls=OldProducer)
    views = [pm.from_dlpack(each) for each in (new, old)]
    assert new.calls == [{"max_version": (1, 3)}], "the CPU has no streams"
    assert old.calls == [{"stream": None}]
    del views


def test_our_own_views_are_no_change(pm: ModuleType, pinned_resource: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view() as view:
        assert pm.from_dlpack(view) is view
        assert pm.View.from_dlpack(view) is view


def test_the_facade(pm: ModuleType) -> None:
    array = host_floats()
    for take in (portamem.from_dlpack, portamem.View.from_dlpack):
        assert take(array).handle == array.ctypes.data


def test_numpy_arrays(pm: ModuleType) -> None:
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    with pm.from_dlpack(array) as view:
        assert (view.handle, view.shape, view.dtype) == (array.ctypes.data, (3, 4, 5), "int16")
        back = np.from_dlpack(view)
        assert back.ctypes.data == array.ctypes.data
        del back


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "float64", "complex64", "complex128", "int32", "uint8"]
)
def test_element_types(pm: ModuleType, dtype: str) -> None:
    array = np.arange(8).astype(dtype)
    view = pm.from_dlpack(array)
    assert view.dtype == dtype
    assert np.array_equal(view.to_numpy(), array)


@KINDS
def test_offsets_and_missing_strides(pm: ModuleType, kind: Any) -> None:
    array = host_floats()
    view = pm.from_dlpack(producer(array, (2, 3), kind=kind, byte_offset=16))
    assert view.handle == array.ctypes.data + 16
    assert np.array_equal(view.to_numpy(), array[4:10].reshape(2, 3))


@pytest.mark.parametrize(
    ("shape", "strides"), [((1, 24), (99, 1)), ((24, 1), (1, 77)), ((0, 5), (3, 9)), ((), ()), ((4, 1, 6), (6, 6, 1))]
)
def test_strides_that_do_not_matter(pm: ModuleType, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    theirs = producer(host_floats(), shape, strides=strides)
    view = pm.from_dlpack(theirs)
    assert view.shape == shape
    del view
    gc.collect()
    assert len(theirs.deleted) == 1


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"shape": (4, 6), "strides": (1, 4)}, ValueError, "not C-contiguous"),
        ({"shape": (3, 4), "strides": (6, 1)}, ValueError, "not C-contiguous"),
        ({"shape": (24,), "strides": (0,)}, ValueError, "not C-contiguous"),
        ({"shape": (2**32,) * 3, "strides": (0, 2**32, 1)}, ValueError, "larger than any memory"),
        ({"shape": (-1,)}, ValueError, "negative"),
        ({"flags": dlpack.READ_ONLY}, ValueError, "read-only"),
        ({"dtype": (dlpack.FLOAT, 32, 4)}, ValueError, "4 lanes"),
        ({"dtype": (dlpack.OPAQUE, 64, 1)}, ValueError, "code 3"),
        ({"dtype": (10, 8, 1)}, ValueError, "code 10"),
        ({"dtype": (dlpack.INT, 4, 1)}, ValueError, "int4"),
        ({"dtype": (dlpack.BOOL, 1, 1)}, ValueError, "code 6 with 1 bits"),
        ({"version": (2, 0)}, BufferError, r"DLPack 2\.0"),
    ],
)
def test_what_is_refused_goes_back(pm: ModuleType, fields: dict[str, Any], error: type, message: str) -> None:
    """A tensor that was taken and is of no use is given back at once, by one call of its deleter."""
    theirs = producer(host_floats(), **fields)
    with pytest.raises(error, match=message):
        pm.from_dlpack(theirs)
    gc.collect()
    assert theirs.deleted == [ctypes.addressof(theirs.managed)]


def test_a_newer_major_version_is_not_read(pm: ModuleType) -> None:
    """Behind the deleter its layout is unknown: a broken tensor there goes unnoticed."""
    theirs = producer(host_floats(), version=(7, 1))
    theirs.managed.tensor.shape, theirs.managed.tensor.ndim = None, 5
    with pytest.raises(BufferError, match=r"7\.1.*version 1"):
        pm.from_dlpack(theirs)
    assert len(theirs.deleted) == 1


def test_a_tensor_without_a_deleter(pm: ModuleType) -> None:
    theirs = producer(host_floats(), has_deleter=False)
    view = pm.from_dlpack(theirs)
    assert view.to_numpy().sum() == 276
    view.close()


def test_a_capsule_is_good_for_one(pm: ModuleType) -> None:
    theirs = producer(host_floats())
    view = pm.from_dlpack(theirs)
    with pytest.raises(ValueError, match="taken already"):
        pm.from_dlpack(theirs)
    del view
    gc.collect()
    assert len(theirs.deleted) == 1


class Answers:
    """A producer of nonsense."""

    def __init__(self, device: Any, capsule: Any = None) -> None:
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        if isinstance(self.capsule, BaseException):
            raise self.capsule
        return self.capsule


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        (object(), TypeError, "an object of type object is no DLPack producer"),
        (b"bytes", TypeError, "bytes is no DLPack producer"),
        (Answers((CPU, 0), 7), TypeError, "int, not a capsule"),
        (Answers((CPU, 0), None), TypeError, "NoneType, not a capsule"),
        (Answers(7), TypeError, "__dlpack_device__ answers"),
        (Answers((1, 2, 3)), TypeError, "__dlpack_device__ answers"),
        (Answers(("cpu", 0)), TypeError, "__dlpack_device__ answers"),
        (Answers((14, 0)), TypeError, r"oneAPI memory \(DLPack device 14, 0\).*host memory"),
        (Answers((6, 3)), TypeError, r"unknown kind of device \(DLPack device 6, 3\)"),
        (Answers((-5, 0)), TypeError, r"DLPack device -5, 0"),
        (Answers((CPU, 0), RuntimeError("mine")), RuntimeError, "mine"),
        (Answers((CPU, 0), BufferError("theirs")), BufferError, "theirs"),
        (Answers((CPU, 0), TypeError("always")), TypeError, "always"),
    ],
)
def test_what_is_no_producer(pm: ModuleType, obj: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        pm.from_dlpack(obj)


def test_memory_of_another_backend(pm: ModuleType) -> None:
    """Refused by the name of the device, before the producer is asked for anything."""
    others = {dlpack.CUDA, dlpack.CUDA_MANAGED, dlpack.ROCM}
    if pm.backend != "host":
        is_amd = pm.Device(0).arch.startswith("gfx")
        others -= {dlpack.ROCM} if is_amd else {dlpack.CUDA, dlpack.CUDA_MANAGED}
    for other in others:
        theirs = producer(host_floats(), device=(other, 0))
        for take in (pm.from_dlpack, pm.asarray):
            with pytest.raises(TypeError, match=rf"{pm.backend} backend cannot reach.*DLPack device {other}, 0"):
                take(theirs)
        assert theirs.calls == []


def test_the_tensor_must_be_what_its_producer_says(pm: ModuleType) -> None:
    theirs = producer(host_floats())
    theirs.managed.tensor.device.type = dlpack.ROCM if pm.backend == "cuda" else dlpack.CUDA
    with pytest.raises((TypeError, ValueError), match="DLPack device"):
        pm.from_dlpack(theirs)
    gc.collect()
    assert len(theirs.deleted) == 1


def test_the_deleter_waits_for_declared_work(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], device_resource: Any, pinned_resource: Any
) -> None:
    """Over page-locked memory: a copy from other memory of the host may block its caller."""
    with device_resource.allocate(4096) as target, pinned_resource.allocate(4096) as source:
        source.fill(7)
        theirs = Producer(source.handle, (1024,), memory=source)
        with pm.from_dlpack(theirs, stream=stream) as view:
            held = latch(stream)
            target.copy_from(view, stream=stream)
        del view
        gc.collect()
        assert theirs.deleted == []
        held.release()
        stream.synchronize()
        assert eventually(lambda: len(theirs.deleted) == 1)
        assert read_back(pm, target) == b"\x07" * 4096


@pytest.mark.parametrize("where", [(dlpack.CUDA_HOST, 0), (dlpack.ROCM_HOST, 0)])
def test_page_locked_memory(pm: ModuleType, pinned_resource: Any, where: tuple[int, int]) -> None:
    """Libraries of either vendor have a type of their own for it. What it is here, the runtime says."""
    with pinned_resource.allocate(96) as buf:
        theirs = Producer(buf.handle, (24,), memory=buf, device=where)
        with pm.from_dlpack(theirs) as view:
            assert (view.handle, view.is_host_accessible, view.is_device_accessible) == (buf.handle, True, True)
            memoryview(view.buffer)[:4] = b"abcd"
            assert read_back(pm, buf)[:4] == b"abcd"
        assert "stream" not in theirs.calls[0]
        del view
        gc.collect()


@pytest.mark.parametrize("named", [True, False], ids=["stream", "no stream"])
@pytest.mark.parametrize("kind", ["device", "managed", "async"])
def test_device_memory(
    pm: ModuleType, make_resource: Callable[[str], Any], stream: Any, kind: str, named: bool
) -> None:
    """A producer of device memory is told our stream by the number that DLPack has for it."""
    if pm.backend == "host":
        pytest.skip("the host backend is no GPU")
    with allocate(make_resource(kind), 4096) as buf, buf.view("float32", (32, 32)) as ours:
        device = ours.__dlpack_device__()
        theirs = Producer(buf.handle, (32, 32), memory=ours, device=device)
        buf.fill(3)
        view = pm.from_dlpack(theirs, stream=stream if named else None)
        default = 0 if pm.Device(0).arch.startswith("gfx") else 1
        assert theirs.calls == [{"stream": stream.handle if named else default, "max_version": (1, 3)}]
        assert (view.handle, view.device_id, view.is_device_accessible) == (buf.handle, 0, True)
        assert view.__dlpack_device__() == device
        assert (view.to_numpy().view(np.uint8) == 3).all()
        del view
        gc.collect()
        assert len(theirs.deleted) == 1


# ----- asarray


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


# ----- partners that are not there


@pytest.mark.parametrize(("method", "package"), [("to_torch", "torch"), ("to_cupy", "cupy")])
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
