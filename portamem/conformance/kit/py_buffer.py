# SPDX-License-Identifier: MIT
"""The buffer protocol as consumers in C use it: through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

SIMPLE, WRITABLE, FORMAT, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS = 0, 0x1, 0x4, 0x8, 0x18, 0x38, 0x58


class PyBuffer(ctypes.Structure):
    """The record that a consumer of the buffer protocol is given."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.restype, _get.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_release = ctypes.pythonapi.PyBuffer_Release
_release.restype, _release.argtypes = None, (ctypes.c_void_p,)


@contextmanager
def taken(exporter: object, flags: int) -> Iterator[PyBuffer]:
    """Asks with these flags, and gives back at the end of the block. Raises what the exporter raises."""
    got = PyBuffer()
    _get(exporter, ctypes.addressof(got), flags)
    try:
        yield got
    finally:
        _release(ctypes.addressof(got))
