# SPDX-License-Identifier: MIT
"""Arguments: mostly what a call expects, sometimes anything else."""

from __future__ import annotations

import array
import math
import random
from typing import Any

import numpy as np

KIB, MIB = 1 << 10, 1 << 20

#: Values that are wrong for most parameters. None of them is the address of memory.
EVIL: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**51, -(2**31), 2**63, 2**64, -(2**63) - 1, 2**200, 0.0, -1.5,
    math.nan, math.inf, 1j, "", "x", "64 MiB", "-1 KiB", "1e3", "host", "device", "default", "global", "\ud800",
    "\x00", "\N{GRINNING FACE}", "a" * 300, b"", b"bytes", (), (1,), (1, -2), (0, 0), (2**58, 2), [], [1, 2],
    {}, {"a": 1}, {1}, frozenset(), object(), object, len, range(3), slice(None), slice(3, 1, -1), ...,
    NotImplemented, ValueError(), np.float64(2.5), np.int8(3), np.dtype("f4"), np.datetime64(1, "D"),
)  # fmt: skip

DTYPES: tuple[Any, ...] = ("uint8", "int16", "float32", "float64", np.int32, np.dtype("u8"), "complex64", bool)


def evil(rng: random.Random) -> Any:
    """Something that hardly any call expects."""
    if rng.random() < 0.2:
        return odd_memory(rng)
    return rng.choice(EVIL)


def nbytes(rng: random.Random) -> Any:
    """A size: small ones most often, absurd ones seldom."""
    chance = rng.random()
    if chance < 0.90:
        return round(math.exp(rng.uniform(0, math.log(256 * KIB))))
    if chance < 0.95:
        return rng.randrange(2 * MIB)
    return rng.choice([0, 1, 255, 256, 257, "3 KiB", "1 MiB", np.int64(77), 2**50, 2**62, 2**63, -1])


def shape(rng: random.Random) -> Any:
    return rng.choice([0, 1, 5, 1000, (3, 4), (2, 0, 5), (), [7, 9], (1,) * 5, (64, 64), np.int32(6), -1, (2**58, 8)])


def host_memory(rng: random.Random) -> Any:
    """Memory of Python's own, of the sizes that buffers have."""
    size = rng.choice([0, 1, 100, 4096, 50_000])
    made = rng.randrange(5)
    if made == 0:
        return bytearray(size)
    if made == 1:
        return bytes(size)
    if made == 2:
        return memoryview(bytearray(size))
    if made == 3:
        return array.array("d", bytes(size // 8 * 8))
    return np.zeros(size, rng.choice(["u1", "i2", "f8"]))


def odd_memory(rng: random.Random) -> Any:
    """Arrays that are no plain bytes, or not in one piece, or not to be written."""
    return rng.choice(ODD)()


def _read_only() -> Any:
    made = np.zeros(16)
    made.flags.writeable = False
    return made


ODD = (
    lambda: np.array([object(), None], dtype=object),
    lambda: np.zeros(3, [("a", "O"), ("b", "i4")]),
    lambda: np.zeros(8, "M8[s]"),
    lambda: np.zeros(8, "m8[ns]"),
    lambda: np.ma.masked_array([1, 2, 3], [False, True, False]),
    lambda: np.zeros((8, 8))[:, ::2],
    lambda: np.zeros((4, 4), order="F")[1:],
    lambda: np.zeros(9)[::-1],
    lambda: np.zeros(()),
    lambda: np.zeros(5, "U3"),
    lambda: memoryview(bytes(8))[::2],
    _read_only,
)
