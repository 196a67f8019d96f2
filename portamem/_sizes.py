# SPDX-License-Identifier: MIT
"""Sizes in bytes: ints, and text such as "64 MiB"."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

_UNITS = {"": 1, "B": 1}
_UNITS.update({f"{prefix}B": 1000**power for power, prefix in enumerate("KMGTPE", start=1)})
_UNITS.update({f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGTPE", start=1)})

_SIZE = re.compile(r"\s*(\d+)(?:\.(\d+))?\s*([A-Za-z]*)\s*", re.ASCII)
_LARGEST = 2**63 - 1
_EXAMPLES = 'a size is a number of bytes, such as 4096, "64 MiB" or "2 GB"'


def parse_size(size: SupportsIndex | str) -> int:
    """``size`` in bytes. kB, MB, ... are powers of 1000; KiB, MiB, ... are powers of 1024; case does not matter."""
    nbytes = _from_text(size) if isinstance(size, str) else _from_number(size)
    if nbytes < 0:
        raise ValueError(f"{nbytes} bytes is negative: {_EXAMPLES}")
    if nbytes > _LARGEST:
        raise ValueError(f"{size!r} is more than {_LARGEST} bytes, the largest size: {_EXAMPLES}")
    return nbytes


def format_size(nbytes: int) -> str:
    """A size for people: "64 MiB", "1.5 GiB"; rounded to two digits behind the point."""
    amount = float(nbytes)
    unit = 0
    while abs(amount) >= 1024 and unit < len("KMGTPE"):
        amount, unit = amount / 1024, unit + 1
    name = "KMGTPE"[unit - 1] + "iB" if unit else "B"
    return f"{amount:.2f}".rstrip("0").rstrip(".") + f" {name}"


def _from_number(size: object) -> int:
    if isinstance(size, bool):
        raise TypeError(f"a size cannot be a bool: {_EXAMPLES}")
    try:
        return operator.index(size)  # type: ignore[arg-type]  # the call is the check
    except TypeError:
        raise TypeError(f"a size cannot be a {type(size).__name__}: {_EXAMPLES}") from None


def _from_text(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None or match[3].upper() not in _UNITS:
        raise ValueError(f"{text!r} is not a size: {_EXAMPLES}")
    whole, fraction, unit = match[1], match[2] or "", _UNITS[match[3].upper()]
    scale: int = 10 ** len(fraction)
    nbytes, rest = divmod(int(whole + fraction) * unit, scale)
    if rest:
        raise ValueError(f"{text!r} is not a whole number of bytes: {_EXAMPLES}")
    return nbytes
