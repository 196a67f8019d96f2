# SPDX-License-Identifier: MIT
"""``portamem.host.knobs``: settings of the CPU reference runtime that a test changes while the process runs.

At the start each has its value from the environment: PORTAMEM_HOST_CAPACITY, PORTAMEM_HOST_COPY_DELAY,
PORTAMEM_HOST_FAIL.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from portamem import _knobs
from portamem._sizes import parse_size

__all__ = ["fail_call", "reset", "set_capacity", "set_copy_delay"]


def set_capacity(device: SupportsIndex, nbytes: SupportsIndex | str) -> None:
    """Sets the bytes of memory that a device has, by its ordinal. Memory that is allocated already stays, also beyond a
    smaller capacity. Raises ValueError for a device that does not exist."""
    _knobs.set_capacity(_number("device", device), parse_size(nbytes))


def set_copy_delay(microseconds: SupportsIndex) -> None:
    """Makes every copy and fill take so many microseconds longer. Raises ValueError for a negative number."""
    _knobs.set_copy_delay(_number("microseconds", microseconds))


def fail_call(call: str | None, nth: SupportsIndex, code: SupportsIndex) -> None:
    """Makes the ``nth`` call from now of a runtime function ("Malloc"; None: of any) answer ``code``, a native code
    from 1 to 999, and do nothing. One such rule stands at a time; ``nth`` 0 removes it. Raises ValueError for another
    code and for a negative ``nth``."""
    if not isinstance(call, str | None):
        raise TypeError(f"call is the name of a function, or None for any, not {type(call).__name__}")
    if call is not None and not call.isascii():
        raise ValueError(f"no function of the runtime is called {call!a}")
    _knobs.fail_call(call, _number("nth", nth), _number("code", code, least=1, most=999))


def reset() -> None:
    """Puts capacities, copy delay and failing call back to the values from the environment."""
    _knobs.reset()


def _number(name: str, value: SupportsIndex, least: int = 0, most: int = 2**31 - 1) -> int:
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{name} is a number from {least} to {most}, not {number}")
    return number
