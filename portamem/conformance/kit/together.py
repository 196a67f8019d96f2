# SPDX-License-Identifier: MIT
"""Programs of one check that run at the same time: most of what they take is starting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer")

_AT_ONCE = 4


def together(run: Callable[[_Given], _Answer], given: Iterable[_Given]) -> list[tuple[_Given, _Answer]]:
    """``run`` of each that is given, some at a time, as pairs in their order. The first exception is raised."""
    each = list(given)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(zip(each, pool.map(run, each), strict=True))
