# SPDX-License-Identifier: MIT
"""Work on other threads, whose exceptions arrive here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.outcome import Failed

TIMEOUT_S = 30.0


def on_a_thread(work: Callable[[], Any]) -> Any:
    """Runs work on a thread of its own and gives what it answers, or raises what it raises."""
    answers: list[Any] = []
    in_threads(lambda number: answers.append(work()), count=1)
    return answers[0]


def in_threads(work: Callable[[int], object], count: int = 8) -> None:
    """Runs ``work(number)`` in threads that start together, and raises what any of them raised."""
    raised: list[BaseException] = []
    start = threading.Barrier(count)

    def body(number: int) -> None:
        try:
            start.wait(TIMEOUT_S)
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    if any(thread.is_alive() for thread in threads):
        raise Failed(f"threads did not end within {TIMEOUT_S:.0f} s")
    if raised:
        raise raised[0]
