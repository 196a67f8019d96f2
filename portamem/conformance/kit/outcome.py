# SPDX-License-Identifier: MIT
"""Outcomes of a clause, and the exceptions by which a check says them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Outcome(str, Enum):
    """The outcomes, in no order from best to worst: ``summed`` says which one stands for several."""

    PASS = "pass"
    """It was seen to hold."""
    EMULATED = "emulated"
    """It was seen to hold, and portamem does what the vendor's runtime does not."""
    UNSUPPORTED = "unsupported"
    """A capability of the device says that there is nothing to hold."""
    DEFECT = "defect"
    """It does not hold, for a known fault of the vendor's."""
    NOT_SHOWN = "not-shown"
    """It could not be seen: no device, no second device; or a part that only a witness decides, and there is none."""
    FAIL = "fail"
    """It does not hold."""


_WORST_FIRST = (Outcome.FAIL, Outcome.DEFECT, Outcome.EMULATED, Outcome.PASS, Outcome.NOT_SHOWN, Outcome.UNSUPPORTED)


def summed(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a clause from those of its cases: the worst that was seen; if nothing was, why."""
    found = set(outcomes)
    return next((outcome for outcome in _WORST_FIRST if outcome in found), Outcome.NOT_SHOWN)


class Failed(Exception):  # noqa: N818  (an outcome, as the next two)
    """The clause does not hold. The text says what was seen, and what should have been."""


class Unsupported(Exception):  # noqa: N818
    """A capability says that there is nothing to show. The text names the capability."""


class NotShown(Exception):  # noqa: N818
    """It cannot be seen here. The text says what is missing."""


class NoWitness(NotShown):
    """A witness decides here, and there is none, or it cannot tell: the clause is not shown, whatever its other
    checks have seen."""
