# SPDX-License-Identifier: MIT
"""Element types, by the names that NumPy gives them. NumPy itself is not needed for that, and not imported."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from portamem._imported import imported


class DType(NamedTuple):
    """An element type: NumPy's name, the array interface's ``typestr``, the buffer protocol's format, its bytes."""

    name: str
    typestr: str
    format: str
    itemsize: int


_DTYPES = (
    DType("bool", "|b1", "?", 1),
    DType("int8", "|i1", "b", 1),
    DType("int16", "<i2", "h", 2),
    DType("int32", "<i4", "i", 4),
    DType("int64", "<i8", "q", 8),
    DType("uint8", "|u1", "B", 1),
    DType("uint16", "<u2", "H", 2),
    DType("uint32", "<u4", "I", 4),
    DType("uint64", "<u8", "Q", 8),
    DType("float16", "<f2", "e", 2),
    DType("float32", "<f4", "f", 4),
    DType("float64", "<f8", "d", 8),
    DType("complex64", "<c8", "Zf", 8),
    DType("complex128", "<c16", "Zd", 16),
)

_PYTHON_TYPES: dict[object, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def _spellings(dtype: DType) -> list[str]:
    """All texts that name a dtype: "float32", and also "<f4", "f4" and "=f4". One byte has no order, and any mark of it
    is taken."""
    code = dtype.typestr[1:]
    marks = "|<=>" if dtype.itemsize == 1 else "<="
    return [dtype.name, code, *(mark + code for mark in marks)]


_BY_NAME = {spelling: dtype for dtype in _DTYPES for spelling in _spellings(dtype)}


def parse_dtype(dtype: object) -> DType:
    """The element type that a name, a typestr, a Python number type or a NumPy dtype means."""
    known = _BY_NAME.get(dtype) if isinstance(dtype, str) else None
    if known is None and isinstance(dtype, type):
        known = _BY_NAME.get(_PYTHON_TYPES.get(dtype, ""))
    return known or _through_numpy(dtype)


def _through_numpy(dtype: object) -> DType:
    """Asks NumPy, if the program has imported it: only then do NumPy's objects and its rarer names exist."""
    numpy = imported("numpy")
    typestr = dtype if isinstance(dtype, str) else ""
    if numpy is not None and isinstance(dtype, (str, type, numpy.dtype)):
        with suppress(TypeError):
            typestr = numpy.dtype(dtype).str
    if typestr in _BY_NAME:
        return _BY_NAME[typestr]
    if typestr[:1] == ">" and "<" + typestr[1:] in _BY_NAME:
        raise ValueError(f"{dtype!r} is big-endian, and devices are little-endian: convert to '<{typestr[1:]}' first")
    if typestr:
        raise ValueError(f"{dtype!r} is not an element type here: they are {', '.join(d.name for d in _DTYPES)}")
    raise TypeError(f"an element type is a name, such as 'float32', or a NumPy dtype, not {dtype!r}")
