# SPDX-License-Identifier: MIT
"""The time that a run waits for what ought to come by itself, such as memory that goes back late."""

from __future__ import annotations

from collections.abc import Callable

from portamem.conformance.kit.expect import eventually

FULL_S = 5.0
LEAST_S = 0.1


class Patience:
    """Shorter after each wait in vain, and whole again when something has come late: where every case leaves memory
    behind, a run of thousands still ends."""

    def __init__(self) -> None:
        self._seconds = FULL_S

    def eventually(self, condition: Callable[[], object]) -> bool:
        """True once a condition comes true. One that is true at once says nothing about those that are late."""
        if condition():
            return True
        came = eventually(condition, self._seconds)
        self._seconds = FULL_S if came else max(LEAST_S, self._seconds / 2)
        return came
