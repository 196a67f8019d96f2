# SPDX-License-Identifier: MIT
"""The bytes that the kernel ``fill`` writes: neighbours, pages and seeds differ, so that what moved shows."""

from __future__ import annotations

_FACTOR = 2654435761
_MASK = 0xFFFFFFFF


def pattern(nbytes: int, seed: int) -> bytes:
    """The bytes that ``fill`` writes to ``nbytes`` of memory. Made by NumPy where that is installed, else byte by
    byte."""
    try:
        import numpy as np
    except ImportError:
        return plain_pattern(nbytes, seed)
    mixed = (np.arange(nbytes, dtype=np.uint32) + np.uint32(seed & _MASK)) * np.uint32(_FACTOR)
    return bytes((mixed >> np.uint32(24)).astype(np.uint8).tobytes())


def plain_pattern(nbytes: int, seed: int) -> bytes:
    """The same without NumPy."""
    return bytes(((i + seed) * _FACTOR & _MASK) >> 24 for i in range(nbytes))
