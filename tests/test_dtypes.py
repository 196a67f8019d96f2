"""Element types by name, NumPy type, array-interface string or Python type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
