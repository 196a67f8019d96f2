"""Element types by name, NumPy type, array-interface string or Python type."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from portamem._dtypes import numpy_dtype

NAMES = [
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.fixture
def buf(device_resource: Any) -> Any:
    return device_resource.allocate(4096)


@pytest.mark.parametrize("name", NAMES)
def test_names_as_numpy_spells_them(buf: Any, name: str) -> None:
    expected = np.dtype(name)
    for spelling in (name, expected, expected.type, expected.str):
        with buf.view(spelling) as view:
            assert view.dtype == name
            assert isinstance(view.dtype, np.dtype)
            assert view.typestr == expected.str
            assert view.itemsize == expected.itemsize
            assert view.to_numpy().dtype == expected
    buf.close()


@pytest.mark.parametrize(
    ("python_type", "name"), [(float, "float64"), (int, "int64"), (complex, "complex128"), (bool, "bool")]
)
def test_python_types(buf: Any, python_type: type, name: str) -> None:
    with buf, buf.view(python_type) as view:
        assert view.dtype == name


@pytest.mark.parametrize("wrong", ["float33", "", ">f4", "O", object, "datetime64[s]", np.dtype([("x", "f4")]), "S4"])
def test_unknown_types_are_refused(buf: Any, wrong: Any) -> None:
    with buf, pytest.raises((TypeError, ValueError), match=r"(?i)dtype|type|endian"):
        buf.view(wrong)


@pytest.mark.parametrize("wrong", [None, 4, 1.5, [1]])
def test_what_is_no_type_is_refused(buf: Any, wrong: Any) -> None:
    with buf, pytest.raises(TypeError, match=r"(?i)dtype|type"):
        buf.view(wrong)


@pytest.fixture
def ml_dtypes() -> Any:
    return pytest.importorskip("ml_dtypes")


ML_NAMES = [
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
    *("int2", "int4", "uint2", "uint4"),
]


@pytest.mark.parametrize("name", ML_NAMES)
def test_types_of_ml_dtypes(pm: ModuleType, pinned_resource: Any, ml_dtypes: Any, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    numbers = np.ones((2, 4), dtype)
    with pm.asarray(numbers, resource=pinned_resource) as view:
        assert view.dtype == dtype
        assert view.typestr == f"<V{dtype.itemsize}"
        assert view.to_numpy().dtype == dtype
        shared = np.asarray(view)
        assert shared.dtype == dtype
        assert shared.ctypes.data == view.handle
        assert np.array_equal(shared, numbers)
        assert np.array_equal(np.asarray(view[:, ::2].T), numbers[:, ::2].T)
        assert np.array(view, dtype="float32").sum() == 8
        assert np.array(view).ctypes.data != view.handle
        del shared
        for spelling in (dtype, dtype.type):
            with view.buffer.view(spelling) as same:
                assert same.dtype == dtype
    with pm.from_any(numbers) as view:
        assert (view.handle, view.dtype) == (numbers.ctypes.data, dtype)


@pytest.mark.usefixtures("ml_dtypes")
def test_an_array_that_may_not_be_a_copy(pm: ModuleType, pinned_resource: Any) -> None:
    with pm.zeros(4, "bfloat16", resource=pinned_resource) as view:
        assert view.__array__(copy=False).ctypes.data == view.handle  # as NumPy calls it from version 2 on
        with pytest.raises(ValueError, match="copy=False"):
            view.__array__("float32", copy=False)


def test_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="pip install ml_dtypes"):
        numpy_dtype("bfloat16")
    assert numpy_dtype("float32") == np.float32


def test_an_older_ml_dtypes(ml_dtypes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ml_dtypes, "float4_e2m1fn")
    with pytest.raises(ImportError, match="no float4_e2m1fn"):
        numpy_dtype("float4_e2m1fn")
