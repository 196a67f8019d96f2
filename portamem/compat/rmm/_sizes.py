# SPDX-License-Identifier: MIT
"""Sizes as RMM takes them: ints, and text such as "2kib"."""

from __future__ import annotations

import operator
import re
from fractions import Fraction
from typing import SupportsIndex

ALIGNMENT = 256
"""The bytes of which every address and the size of every bin is a multiple."""

_TEXT = re.compile(r"(\d+(?:\.\d*)?)[ \t]*(?:([kmgtp]?)(i?)b)?", re.ASCII | re.IGNORECASE)


def parse_bytes(size: SupportsIndex | str) -> int:
    """A size in bytes. kB, MB, ... are powers of 1000, KiB, MiB, ... powers of 1024; case does not matter, and a
    fraction of a byte is dropped. Raises ValueError for text that is no size."""
    if not isinstance(size, str):
        return nbytes_of(size)
    found = _TEXT.fullmatch(size)
    if found is None or (found[3] and not found[2]):
        raise ValueError(f'Could not parse {size!r} as a size: it is a number of bytes, or text such as "64 MiB"')
    base = 1024 if found[3] else 1000
    power = " kmgtp".index(found[2].lower()) if found[2] else 0
    return int(Fraction(found[1].removesuffix(".")) * base**power)


def nbytes_of(size: SupportsIndex) -> int:
    """A number of bytes. Raises TypeError for what is no whole number, and ValueError for one below 0."""
    nbytes = operator.index(size)
    if nbytes < 0:
        raise ValueError(f"a size is not negative: {nbytes}")
    return nbytes


def align_up(nbytes: int) -> int:
    """The next multiple of ``ALIGNMENT``."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
