# SPDX-License-Identifier: MIT
"""Element types, by the names that NumPy and ml_dtypes give them. Neither is imported to know a name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from portamem._imported import imported


class DType(NamedTuple):
    """An element type: NumPy's name, the array interface's ``typestr``, the buffer protocol's format, its bytes, and
    DLPack's code and bits. The format is empty for types of ml_dtypes, which neither protocol can name."""

    name: str
    typestr: str
    format: str
    itemsize: int
    code: int
    bits: int


# DLPack's codes of whole and of real numbers.
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

_NUMPY_DTYPES = (
    DType("bool", "|b1", "?", 1, _BOOL, 8),
    DType("int8", "|i1", "b", 1, _INT, 8),
    DType("int16", "<i2", "h", 2, _INT, 16),
    DType("int32", "<i4", "i", 4, _INT, 32),
    DType("int64", "<i8", "q", 8, _INT, 64),
    DType("uint8", "|u1", "B", 1, _UINT, 8),
    DType("uint16", "<u2", "H", 2, _UINT, 16),
    DType("uint32", "<u4", "I", 4, _UINT, 32),
    DType("uint64", "<u8", "Q", 8, _UINT, 64),
    DType("float16", "<f2", "e", 2, _FLOAT, 16),
    DType("float32", "<f4", "f", 4, _FLOAT, 32),
    DType("float64", "<f8", "d", 8, _FLOAT, 64),
    DType("complex64", "<c8", "Zf", 8, _COMPLEX, 64),
    DType("complex128", "<c16", "Zd", 16, _COMPLEX, 128),
)


def _of_ml_dtypes(name: str, code: int, bits: int) -> DType:
    """Numbers of less than a byte have a byte each, as in ml_dtypes."""
    itemsize = max(bits // 8, 1)
    return DType(name, f"<V{itemsize}", "", itemsize, code, bits)


_ML_DTYPES = (
    _of_ml_dtypes("bfloat16", _BFLOAT, 16),
    _of_ml_dtypes("float8_e3m4", 7, 8),
    _of_ml_dtypes("float8_e4m3", 8, 8),
    _of_ml_dtypes("float8_e4m3b11fnuz", 9, 8),
    _of_ml_dtypes("float8_e4m3fn", 10, 8),
    _of_ml_dtypes("float8_e4m3fnuz", 11, 8),
    _of_ml_dtypes("float8_e5m2", 12, 8),
    _of_ml_dtypes("float8_e5m2fnuz", 13, 8),
    _of_ml_dtypes("float8_e8m0fnu", 14, 8),
    _of_ml_dtypes("float6_e2m3fn", 15, 6),
    _of_ml_dtypes("float6_e3m2fn", 16, 6),
    _of_ml_dtypes("float4_e2m1fn", 17, 4),
    _of_ml_dtypes("int2", _INT, 2),
    _of_ml_dtypes("int4", _INT, 4),
    _of_ml_dtypes("uint2", _UINT, 2),
    _of_ml_dtypes("uint4", _UINT, 4),
)

_PYTHON_TYPES: dict[object, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def _spellings(dtype: DType) -> list[str]:
    """All texts that name a dtype: "float32", and also "<f4", "f4" and "=f4". One byte has no order, and any mark of it
    is taken."""
    code = dtype.typestr[1:]
    marks = "|<=>" if dtype.itemsize == 1 else "<="
    return [dtype.name, code, *(mark + code for mark in marks)]


_BY_NAME = {spelling: dtype for dtype in _NUMPY_DTYPES for spelling in _spellings(dtype)}
_BY_NAME.update((dtype.name, dtype) for dtype in _ML_DTYPES)
_BY_CODE = {(dtype.code, dtype.bits): dtype for dtype in (*_NUMPY_DTYPES, *_ML_DTYPES)}


def parse_dtype(dtype: object) -> DType:
    """The element type that a name, a typestr, a Python number type or a dtype of NumPy or ml_dtypes means."""
    known = _BY_NAME.get(dtype) if isinstance(dtype, str) else None
    if known is None and isinstance(dtype, type):
        known = _BY_NAME.get(_PYTHON_TYPES.get(dtype, ""))
    return known or _through_numpy(dtype)


def dlpack_dtype(code: int, bits: int, lanes: int) -> DType:
    """The element type that DLPack means. ValueError for one that is none here."""
    known = _BY_CODE.get((code, bits)) if lanes == 1 else None
    if known is None:
        raise ValueError(
            f"DLPack elements of code {code} with {bits} bits and {lanes} lanes are no element type here: convert them "
            "first"
        )
    return known


def numpy_dtype(name: str) -> Any:
    """The ``numpy.dtype`` of an element type, by its name. ImportError where it takes ml_dtypes, which is not there."""
    import numpy

    dtype = _BY_NAME[name]
    if dtype.format:
        return numpy.dtype(dtype.typestr)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(f"NumPy has {name} only with the package ml_dtypes: pip install ml_dtypes") from None
    if not hasattr(ml_dtypes, name):
        raise ImportError(f"ml_dtypes {ml_dtypes.__version__} has no {name}: pip install --upgrade ml_dtypes")
    return numpy.dtype(getattr(ml_dtypes, name))


def _through_numpy(dtype: object) -> DType:
    """Asks NumPy, if the program has imported it: only then do NumPy's objects and its rarer names exist."""
    numpy = imported("numpy")
    typestr = dtype if isinstance(dtype, str) else ""
    if numpy is not None and isinstance(dtype, (str, type, numpy.dtype)):
        with suppress(TypeError):
            meant = numpy.dtype(dtype)
            typestr = meant.name if meant.isbuiltin == 2 else meant.str  # 2: a type that a package registered
    if typestr in _BY_NAME:
        return _BY_NAME[typestr]
    if typestr[:1] == ">" and "<" + typestr[1:] in _BY_NAME:
        raise ValueError(f"{dtype!r} is big-endian, and devices are little-endian: convert to '<{typestr[1:]}' first")
    if typestr:
        names = ", ".join(each.name for each in (*_NUMPY_DTYPES, *_ML_DTYPES))
        raise ValueError(f"{dtype!r} is not an element type here: the types are {names}")
    raise TypeError(f"an element type is a name, such as 'float32', or a NumPy dtype, not {dtype!r}")
