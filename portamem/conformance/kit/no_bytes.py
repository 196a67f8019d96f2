# SPDX-License-Identifier: MIT
"""Objects of the host whose memory is more than bytes: references to Python objects, and masked arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


class _Holds(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int64), ("what", ctypes.py_object))


class _HoldsDeeper(ctypes.Structure):
    _fields_ = (("inner", _Holds * 2),)


class _HoldsPerhaps(ctypes.Union):
    """A union that holds an object: the buffer protocol says of it that it is bytes."""

    _fields_ = (("number", ctypes.c_int64), ("what", ctypes.py_object))


class Interface:
    """An object that has nothing but an array interface: NumPy's own, and what is said beside it."""

    def __init__(self, array: Any, **beside: Any) -> None:
        self._array = array
        self.__array_interface__ = {**array.__array_interface__, **beside}


def no_bytes(role: str) -> list[tuple[Any, type[Exception], str]]:
    """Each with the exception that refuses it as the source or the target, and what that says."""
    record = np.dtype([("number", "i8"), ("deeper", [("what", "O", (2,))])])
    objects: Any = np.array(["first", 2], dtype=object)
    kind: Any = ctypes.py_object
    references = (
        objects,
        np.zeros(2, dtype=record),
        np.zeros(2, dtype=record)["deeper"],
        memoryview(objects),
        np.array(["first", 2], dtype=object).view(np.matrix),
        Interface(objects),
        Interface(np.zeros(2, dtype=record)),
        (kind * 2)("first", 2),
        _Holds(1, "first"),
        _HoldsDeeper(),
        _HoldsPerhaps(1),
        memoryview(_HoldsPerhaps(1)),
    )
    masked: Any = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    return [
        *((each, TypeError, f"{role} is a") for each in references),
        *((each, ValueError, f"{role} is a masked array") for each in (masked, memoryview(masked))),
        (Interface(np.zeros(2), mask=np.zeros(2, bool)), ValueError, f"{role} is masked memory"),
    ]
