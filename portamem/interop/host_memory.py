# SPDX-License-Identifier: MIT
"""Decides which of the host's objects are bytes: refuses references to Python objects, and arrays that say more than
their bytes.

The native modules call this where the buffer protocol alone does not tell. The partners themselves are never imported:
objects of theirs exist only where they have been.
"""

from __future__ import annotations

from typing import Any

from portamem._imported import imported


def refuse_no_bytes(obj: Any, role: str) -> None:
    """TypeError for memory that holds references to Python objects, ValueError for masked arrays."""
    while isinstance(obj, memoryview):
        obj = obj.obj
    refuse_masked(obj, role)
    ctypes = imported("ctypes")
    if ctypes is not None and isinstance(obj, _ctypes_classes(ctypes)) and _refers_to_objects(ctypes, type(obj)):
        refuse_objects(role, type(obj).__name__)
    dtype = getattr(obj, "dtype", None)
    numpy = imported("numpy")
    if numpy is not None and isinstance(dtype, numpy.dtype) and (dtype.hasobject or dtype.kind == "T"):
        refuse_objects(role, f"{type(obj).__name__} of {dtype}")


def refuse_objects(role: str, what: str) -> None:
    raise TypeError(
        f"{role} is a {what}: it holds references to Python objects, which are no bytes to copy. Convert it to an "
        "array of numbers first"
    )


def refuse_masked(obj: Any, role: str) -> None:
    """ValueError for a masked array, also where it is in a list or a tuple."""
    ma = imported("numpy.ma")
    if ma is None:
        return
    if isinstance(obj, ma.MaskedArray):
        raise ValueError(
            f"{role} is a masked array, and its mask would be lost: pass obj.data and obj.mask on their own, or "
            "obj.filled(value)"
        )
    if isinstance(obj, (list, tuple)):
        for each in obj:
            if not isinstance(each, (int, float, complex, str, bytes)):
                refuse_masked(each, role)


def _ctypes_classes(ctypes: Any) -> tuple[type, ...]:
    return (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes._SimpleCData)


def _refers_to_objects(ctypes: Any, kind: Any) -> bool:
    if issubclass(kind, ctypes.Array):
        return _refers_to_objects(ctypes, kind._type_)
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        fields = [field for base in kind.__mro__ for field in base.__dict__.get("_fields_", ())]
        return any(_refers_to_objects(ctypes, field[1]) for field in fields)
    return issubclass(kind, ctypes._SimpleCData) and kind._type_ == "O"
