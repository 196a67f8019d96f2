# SPDX-License-Identifier: MIT
"""Host memory as RMM takes it: bytes in one row."""

from __future__ import annotations

from typing import Any


def host_bytes(obj: Any, role: str) -> memoryview:
    """The memory of an object with a Python buffer of unsigned bytes. Raises TypeError for an object that has none, and
    ValueError for other elements, more dimensions and gaps; ``role`` is the parameter's name."""
    try:
        found = memoryview(obj)
    except TypeError:
        raise TypeError(f"Argument `{role}` is bytes-like, not {_name_of(obj)}") from None
    if found.format.lstrip("@=<>!") != "B":
        raise ValueError(f"Argument `{role}` has elements of format {found.format!r}, not unsigned bytes ('B')")
    if found.ndim != 1 or not found.c_contiguous:
        raise ValueError(f"Argument `{role}` is not one row of bytes without gaps: make a contiguous copy of it first")
    return found


def _name_of(obj: Any) -> str:
    return "None" if obj is None else f"a {type(obj).__name__}"
