"""Typed Views: shape, type, slices, the array interfaces, and how they hold their buffer."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate, pattern, read_back, write


@pytest.fixture
def buf(resource: Any) -> Any:
    return allocate(resource, 4096)


def test_a_view_is_bytes_unless_told(pm: ModuleType, buf: Any) -> None:
    with buf, buf.view() as view:
        assert (view.dtype, view.shape, view.strides, view.itemsize) == ("uint8", (4096,), (1,), 1)
        assert (view.ndim, view.size, view.nbytes, len(view)) == (1, 4096, 4096, 4096)
        assert view.handle == buf.handle
        assert view.buffer is buf
        assert view.device_id == buf.device_id
        assert view.is_host_accessible == buf.is_host_accessible
        assert view.is_device_accessible == buf.is_device_accessible


def test_shape_and_offset(pm: ModuleType, buf: Any) -> None:
    data = pattern(4096)
    write(pm, buf, data)
    with buf, buf.view("int32", (3, 5), offset=64) as view:
        assert (view.shape, view.strides, view.size, view.nbytes) == ((3, 5), (20, 4), 15, 60)
        assert view.handle == buf.handle + 64
        expected = np.frombuffer(data, np.int32, 15, 64).reshape(3, 5)
        assert np.array_equal(view.to_numpy(), expected)
        assert "int32" in repr(view)
        assert "(3, 5)" in repr(view)


def test_the_class_makes_the_same_view(pm: ModuleType, buf: Any) -> None:
    with buf, pm.View(buf, "float64", 8, offset="1 KiB") as view:
        assert (view.dtype, view.shape) == ("float64", (8,))
        assert view.handle == buf.handle + 1024


def test_without_a_shape_it_takes_what_is_left(buf: Any) -> None:
    with buf, buf.view("float64", offset=4000) as view:
        assert view.shape == (12,)


def test_scalars_and_empty_views(buf: Any) -> None:
    with buf, buf.view("float64", ()) as scalar, buf.view("float64", (0, 7)) as empty:
        assert (scalar.ndim, scalar.size, scalar.nbytes) == (0, 1, 8)
        assert (empty.size, empty.nbytes) == (0, 0)
        assert empty.to_numpy().shape == (0, 7)
        with pytest.raises(TypeError):
            len(scalar)


def test_a_view_is_an_export(pm: ModuleType, buf: Any) -> None:
    view = buf.view("float32")
    assert buf.exports == 1
    with pytest.raises(BufferError, match="export"):
        buf.close()
    view.close()
    assert view.is_closed
    view.close()
    buf.close()


def test_a_view_keeps_the_memory(pm: ModuleType, resource: Any) -> None:
    buf = allocate(resource, 4096)
    buf.fill(1)
    view = buf.view("uint8", (2, 8))
    del buf
    gc.collect()
    assert resource.live_buffers == 1
    assert read_back(pm, view) == b"\x01" * 16
    view.close()
    del view
    gc.collect()
    assert resource.live_buffers == 0


def test_copies_and_fills(pm: ModuleType, buf: Any) -> None:
    array = np.arange(64, dtype=np.float64).reshape(8, 8)
    with buf, buf.view("float64", (8, 8)) as view, buf.view("float64", 64, offset=1024) as other:
        view.copy_from(array)
        other.copy_from(view)
        out = np.empty(64)
        other.copy_to(out)
        assert np.array_equal(out, array.ravel())
        view.fill(0)
        assert not view.to_numpy().any()
        assert np.array_equal(other.to_numpy(), array.ravel())


def test_to_numpy_is_done_on_return(buf: Any, stream: Any) -> None:
    with buf, buf.view("uint8") as view:
        view.fill(9, stream=stream)
        array = view.to_numpy(stream=stream)
        assert (array == 9).all()
        array[:] = 1
        assert (view.to_numpy() == 9).all(), "it is a copy"


def test_slices_along_the_first_axis(pm: ModuleType, buf: Any) -> None:
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    with buf, buf.view("int16", (3, 4, 5)) as view:
        view.copy_from(array)
        with view[1] as row, view[-1] as last, view[1:] as rows, row[2] as inner:
            assert np.array_equal(row.to_numpy(), array[1])
            assert np.array_equal(last.to_numpy(), array[-1])
            assert np.array_equal(rows.to_numpy(), array[1:])
            assert np.array_equal(inner.to_numpy(), array[1, 2])
            assert row.handle == view.handle + 40
        with pytest.raises(IndexError, match="3"):
            view[3]
        with pytest.raises(ValueError, match="step"):
            view[::2]


def test_reshape_shares_the_memory(buf: Any) -> None:
    with buf, buf.view("float32", (4, 6)) as view:
        with view.reshape(2, 12) as two, view.reshape((24,)) as flat:
            assert (two.shape, flat.shape) == ((2, 12), (24,))
            assert two.handle == flat.handle == view.handle
        with pytest.raises(ValueError, match=r"24|reshape"):
            view.reshape(5, 5)


def test_the_cuda_array_interface(pm: ModuleType, buf: Any) -> None:
    with buf, buf.view("float32", (4, 6)) as view:
        if pm.backend == "host" or not view.is_device_accessible:
            assert not hasattr(view, "__cuda_array_interface__"), "consumers would take it for a GPU's memory"
            return
        interface = view.__cuda_array_interface__
        assert interface["shape"] == (4, 6)
        assert interface["typestr"] == view.typestr == "<f4"
        assert interface["data"] == (view.handle, False)
        assert interface["version"] == 3
        assert interface.get("strides") in (None, (24, 4))


def test_the_array_interface_is_for_the_host(buf: Any) -> None:
    with buf, buf.view("float32", (4, 6)) as view:
        if not view.is_host_accessible:
            with pytest.raises(AttributeError, match="host"):
                view.__array_interface__  # noqa: B018
            assert not hasattr(view, "__array_interface__")
            return
        interface = view.__array_interface__
        assert interface["shape"] == (4, 6)
        assert interface["typestr"] == "<f4"
        assert interface["data"] == (view.handle, False)
        assert interface["version"] == 3


def test_buffers_carry_no_array_interface(buf: Any) -> None:
    with buf:
        assert not hasattr(buf, "__array_interface__")
        assert not hasattr(buf, "__cuda_array_interface__")


def test_numpy_takes_what_the_host_reaches(buf: Any) -> None:
    """np.asarray of anything else must be refused: neither an object array in silence, nor device memory read."""
    with buf, buf.view("float32") as view:
        if view.is_host_accessible:
            array = np.asarray(view)
            assert (array.ctypes.data, array.dtype, array.shape) == (view.handle, np.float32, (1024,))
            del array
        else:
            with pytest.raises((TypeError, BufferError), match=r"host|to_numpy"):
                np.asarray(view)


@pytest.mark.parametrize(
    ("dtype", "shape", "offset", "message"),
    [
        ("float32", 1025, 0, r"4100.*4096"),
        ("float32", (2, 512), 8, r"4104.*4096|4096"),
        ("float64", None, 4, r"multiple|align|itemsize|8"),
        ("float64", None, 4097, r"4097|offset"),
        ("float32", -1, 0, r"negative|-1"),
        ("float32", (2**40, 2**40), 0, "larger than any memory"),
    ],
)
def test_a_view_must_fit(buf: Any, dtype: str, shape: Any, offset: int, message: str) -> None:
    with buf, pytest.raises(ValueError, match=message):
        buf.view(dtype, shape, offset=offset)


def test_closed_views_refuse(pm: ModuleType, buf: Any) -> None:
    with buf:
        view = buf.view()
        view.close()
        for call in (lambda: view.fill(0), lambda: view.copy_to(bytearray(4096)), view.to_numpy, lambda: view[0]):
            with pytest.raises(ValueError, match="closed"):
                call()
        assert "closed" in repr(view)
