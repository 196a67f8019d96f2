"""Views as arrays of Apache Arrow: the structs as the protocol has them, and as PyArrow reads them."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate, write
from helpers.waiting import eventually

COUNT = 1000
_TYPES = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64"
FORMATS = dict(zip(_TYPES.split(), "cCsSiIlLefg", strict=True))
CPU = 1


class Schema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


class Array(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


class DeviceArray(ctypes.Structure):
    _fields_ = (
        ("array", Array),
        ("device_id", ctypes.c_int64),
        ("device_type", ctypes.c_int32),
        ("sync_event", ctypes.c_void_p),
        ("reserved", ctypes.c_int64 * 3),
    )


def struct_in(capsule: Any, name: str, kind: Any) -> Any:
    """The struct that a capsule holds, where it lies."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return kind.from_address(get(capsule, name.encode()))


def taken(array: Any) -> Array:
    """The struct moved out, as the protocol says that consumers do it."""
    moved = Array.from_buffer_copy(array)
    array.release = type(array.release)()
    return moved


def release(array: Array) -> None:
    array.release(ctypes.addressof(array))
    assert not array.release, "a released struct says so"


@pytest.mark.parametrize(("name", "letter"), FORMATS.items())
def test_the_structs(pinned_resource: Any, name: str, letter: str) -> None:
    with pinned_resource.allocate(COUNT * 8 + 64) as buf, buf.view(name, COUNT, offset=64) as view:
        schema_capsule, array_capsule = view.__arrow_c_array__()
        schema = struct_in(schema_capsule, "arrow_schema", Schema)
        array = struct_in(array_capsule, "arrow_array", Array)
        assert (schema.format, schema.name, schema.n_children, bool(schema.release)) == (letter.encode(), b"", 0, True)
        assert (array.length, array.null_count, array.offset) == (COUNT, 0, 0)
        assert (array.n_buffers, array.n_children) == (2, 0)
        assert (array.buffers[0], array.buffers[1]) == (None, view.handle)
        del schema, array, schema_capsule, array_capsule
        gc.collect()


@pytest.mark.parametrize("kind", ["device", "pinned", "managed", "async", "system"])
def test_the_device(pm: ModuleType, make_resource: Callable[[str], Any], kind: str) -> None:
    """The CPU where the host reaches the memory, because PyArrow takes no other for it, and else DLPack's device."""
    with allocate(make_resource(kind), COUNT * 4) as buf, buf.view("float32") as view:
        if pm.backend == "host" and not view.is_host_accessible:
            with pytest.raises(BufferError, match="memory that the host can reach"):
                view.__arrow_c_device_array__()
            return
        _, capsule = view.__arrow_c_device_array__(None, unknown=None)
        found = struct_in(capsule, "arrow_device_array", DeviceArray)
        assert (found.array.length, found.array.buffers[1]) == (COUNT, view.handle)
        expected = (CPU, -1) if view.is_host_accessible else view.__dlpack_device__()
        assert (found.device_type, found.device_id) == expected
        assert (found.sync_event, list(found.reserved)) == (None, [0, 0, 0])
        del found, capsule
        gc.collect()


def test_memory_that_the_host_does_not_reach(device_resource: Any) -> None:
    with device_resource.allocate(64) as buf, buf.view("float32") as view:
        if view.is_host_accessible:
            pytest.skip("this memory is the host's as well")
        with pytest.raises(BufferError, match="copy it to host memory first"):
            view.__arrow_c_array__()
        assert buf.exports == 1


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_device_array__"])
def test_capsules_that_are_dropped_let_go(pinned_resource: Any, method: str) -> None:
    with pinned_resource.allocate(4096) as buf:
        view = buf.view("int32")
        capsules = getattr(view, method)()
        view.close()
        with pytest.raises(BufferError, match="in use"):
            buf.close()
        del capsules
        gc.collect()
        assert buf.exports == 0


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_device_array__"])
def test_a_consumer_that_takes_the_array_lets_go_by_its_release(
    make_resource: Callable[[str], Any], method: str
) -> None:
    resource = make_resource("pinned")
    buf = resource.allocate(4096)
    view = buf.view("int32")
    view.fill(7)
    capsules = getattr(view, method)()
    if method == "__arrow_c_array__":
        array = taken(struct_in(capsules[1], "arrow_array", Array))
    else:
        array = taken(struct_in(capsules[1], "arrow_device_array", DeviceArray).array)
    del capsules, view, buf
    gc.collect()
    assert resource.live_buffers == 1, "the consumer has the array"
    numbers = (ctypes.c_int32 * array.length).from_address(array.buffers[1])
    assert list(numbers[:3]) == [0x07070707] * 3
    release(array)
    assert eventually(lambda: resource.live_buffers == 0)


def test_a_view_that_is_closed_meanwhile(pinned_resource: Any) -> None:
    with pinned_resource.allocate(64) as buf:
        view = buf.view("int32")
        view.close()
        for method in (view.__arrow_c_array__, view.__arrow_c_device_array__):
            with pytest.raises(ValueError, match="closed"):
                method()


@pytest.mark.parametrize(
    ("name", "saying"),
    [
        ("bool", r'packs eight bools into a byte.*view\("uint8"\)'),
        ("complex64", r'parts as view\("float32"\)'),
        ("complex128", r'parts as view\("float64"\)'),
        ("bfloat16", r'bits as view\("uint16"\)'),
        ("float8_e4m3fn", r'bits as view\("uint8"\)'),
        ("int4", r'bits as view\("uint8"\)'),
    ],
)
def test_types_that_arrow_has_not(pinned_resource: Any, name: str, saying: str) -> None:
    with pinned_resource.allocate(64) as buf, buf.view(name) as view:
        for method in (view.__arrow_c_array__, view.__arrow_c_device_array__):
            with pytest.raises(BufferError, match=saying):
                method()
        assert buf.exports == 1


def test_shapes_that_arrow_has_not(pinned_resource: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view("int32", (4, 4)) as view:
        with pytest.raises(BufferError, match=r"one dimension, and the view has the shape \(4, 4\).*ravel"):
            view.__arrow_c_array__()
        with view[0, 0] as number, pytest.raises(BufferError, match="one dimension"):
            number.__arrow_c_array__()
        with view.ravel()[::2] as gaps, pytest.raises(BufferError, match="no gaps"):
            gaps.__arrow_c_array__()
        with view.ravel() as line:
            assert len(line.__arrow_c_array__()) == 2


def test_what_is_asked_for(pinned_resource: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view("int32") as view:
        wish = view.__arrow_c_array__()[0]
        assert len(view.__arrow_c_array__(wish)) == len(view.__arrow_c_device_array__(requested_schema=wish)) == 2
        for method in (view.__arrow_c_array__, view.__arrow_c_device_array__):
            with pytest.raises(TypeError, match=r'a capsule "arrow_schema" or None, not int'):
                method(5)
        with pytest.raises(NotImplementedError, match="the keyword stream"):
            view.__arrow_c_device_array__(stream=1)
        with pytest.raises(TypeError):
            view.__arrow_c_array__(stream=None)
        del wish
        gc.collect()
        assert buf.exports == 1


def test_no_elements(pinned_resource: Any) -> None:
    with pinned_resource.allocate(64) as buf, buf.view("int32", 0) as view:
        _, capsule = view.__arrow_c_array__()
        array = struct_in(capsule, "arrow_array", Array)
        assert (array.length, array.buffers[0]) == (0, None)
        assert array.buffers[1]
        del array, capsule
        gc.collect()


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_device_array__"])
def test_declared_work_has_run(pinned_resource: Any, stream: Any, latch: Callable[[Any], Any], method: str) -> None:
    with pinned_resource.allocate(4096) as buf, buf.view("uint8") as view:
        buf.fill(0)
        held = latch(stream)
        buf.fill(9, stream=stream)
        held.release_soon()
        capsules = getattr(view, method)()
        assert stream.query()
        del capsules
        gc.collect()


def test_read_only_memory_goes_too(pm: ModuleType) -> None:
    """Arrow's arrays are read alone."""
    fixed = np.arange(8, dtype=np.int64)
    fixed.flags.writeable = False
    with pm.from_any(fixed) as view:
        _, capsule = view.__arrow_c_array__()
        assert struct_in(capsule, "arrow_array", Array).buffers[1] == fixed.ctypes.data
        del capsule
        gc.collect()


# ----- PyArrow


@pytest.mark.parametrize("kind", ["pinned", "managed", "system"])
@pytest.mark.parametrize("name", FORMATS)
def test_pyarrow_takes_it(pm: ModuleType, make_resource: Callable[[str], Any], name: str, kind: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    numbers = np.arange(100).astype(name)
    with allocate(make_resource(kind), numbers.nbytes) as buf, buf.view(name) as view:
        write(pm, buf, numbers.tobytes())
        array = arrow.array(view)
        array.validate(full=True)
        assert (array.type, array.null_count, len(array)) == (arrow.from_numpy_dtype(numbers.dtype), 0, 100)
        assert array.buffers()[1].address == view.handle
        assert np.array_equal(array.to_numpy(), numbers)
        assert buf.exports == 2
        del array
        gc.collect()
        assert buf.exports == 1


def test_a_wish_for_another_type_changes_nothing(pinned_resource: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    with pinned_resource.allocate(64) as buf, buf.view("int32") as view:
        buf.fill(0)
        wish = arrow.float64().__arrow_c_schema__()
        array = arrow.Array._import_from_c_capsule(*view.__arrow_c_array__(wish))
        assert (array.type, array.buffers()[1].address) == (arrow.int32(), view.handle)
        assert array.cast(arrow.float64()).to_pylist() == [0.0] * 16
        del array
        gc.collect()


def test_pyarrow_imports_device_arrays(pinned_resource: Any) -> None:
    arrow = pytest.importorskip("pyarrow")
    with pinned_resource.allocate(64) as buf, buf.view("int32") as view:
        buf.fill(1)
        array = arrow.Array._import_from_c_device_capsule(*view.__arrow_c_device_array__())
        assert array.buffers()[1].address == view.handle
        assert array.to_pylist() == [0x01010101] * 16
        del array
        gc.collect()
