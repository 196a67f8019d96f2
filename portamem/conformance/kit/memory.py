# SPDX-License-Identifier: MIT
"""Patterns, and looking for ranges that overlap."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

KIB = 1 << 10
MIB = 1 << 20


def pattern(nbytes: int, seed: int = 0) -> bytes:
    """Random bytes of a seed: one that is shifted, swapped or missing shows."""
    return _kept_pattern(nbytes, seed) if nbytes <= MIB else random.Random(seed).randbytes(nbytes)


@lru_cache(64)
def _kept_pattern(nbytes: int, seed: int) -> bytes:
    """Checks compare with the bytes that they have written, and the next kind of resource gets the same ones."""
    return random.Random(seed).randbytes(nbytes)


def overlapping(buffers: Iterable[Any]) -> list[tuple[int, int]]:
    """Pairs of neighbours, by address, whose bytes overlap."""
    ranges = sorted((buf.handle, buf.handle + buf.nbytes) for buf in buffers if buf.nbytes)
    return [(a[0], b[0]) for a, b in pairwise(ranges) if a[1] > b[0]]
