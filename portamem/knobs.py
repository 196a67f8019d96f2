# SPDX-License-Identifier: MIT
"""``portamem.host.knobs``: the CPU reference runtime's own knobs, changed while the process runs. They are for tests.

At the start each has what the environment says: PORTAMEM_HOST_CAPACITY, PORTAMEM_HOST_COPY_DELAY, PORTAMEM_HOST_FAIL.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from portamem import _knobs
from portamem._sizes import parse_size

__all__ = ["fail_call", "reset", "set_capacity", "set_copy_delay"]


def set_capacity(device: SupportsIndex, nbytes: SupportsIndex | str) -> None:
    """Bytes that a device has from now on. What is allocated stays."""
    _knobs.set_capacity(operator.index(device), parse_size(nbytes))


def set_copy_delay(microseconds: int) -> None:
    """Every copy takes this much longer."""
    _knobs.set_copy_delay(microseconds)


def fail_call(call: str | None, nth: int, code: int) -> None:
    """The ``nth`` next call of that name (of any name for None) answers ``code`` and does nothing."""
    _knobs.fail_call(call, nth, code)


def reset() -> None:
    """Puts all of them back to what the environment says."""
    _knobs.reset()
