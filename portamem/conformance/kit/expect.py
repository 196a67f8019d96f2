# SPDX-License-Identifier: MIT
"""The words in which checks say what they expect. They are no ``assert``: that is gone under ``python -O``, and tells a
reader of a report nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.kit.outcome import Failed


def expect(condition: object, otherwise: str) -> None:
    """Fails the clause with ``otherwise`` unless the condition is true."""
    if not condition:
        raise Failed(otherwise)


def expect_equal(found: Any, wanted: Any, what: str) -> None:
    """Fails the clause unless ``what`` was found as it should be."""
    if found != wanted:
        raise Failed(f"{what} is {_short(found)}, and should be {_short(wanted)}")


def expect_soon(find: Callable[[], Any], wanted: Any, what: str) -> None:
    """Fails the clause unless ``find()`` answers as it should within some seconds. Memory that is dropped, not closed,
    may go back late: where the runtime's free can wait, another thread calls it."""
    eventually(lambda: find() == wanted)
    expect_equal(find(), wanted, what)


def expect_bytes(found: bytes, wanted: bytes, where: str) -> None:
    """Fails the clause at the first byte that differs."""
    if found == wanted:
        return
    if len(found) != len(wanted):
        raise Failed(f"{where}: {len(found)} bytes instead of {len(wanted)}")
    wrong = [i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b]
    first = wrong[0]
    raise Failed(
        f"{where}: {len(wrong)} of {len(wanted)} bytes are wrong, the first at offset {first}: "
        f"0x{found[first]:02x} instead of 0x{wanted[first]:02x}"
    )


class Refusal:
    """The exception that ``refused`` caught; ``error`` is there after the block."""

    error: BaseException


@contextmanager
def refused(*errors: type[BaseException], saying: str = "", name: str = "") -> Iterator[Refusal]:
    """Fails the clause unless the block raises one of these exceptions, whose text holds ``saying`` and which has, for
    a runtime's answer, portamem's ``name`` for its code."""
    refusal = Refusal()
    wanted = " or ".join(error.__name__ for error in errors)
    try:
        yield refusal
    except errors as error:
        refusal.error = error
    else:
        raise Failed(f"nothing was raised, and {wanted} should have been")
    text = str(refusal.error)
    if saying.lower() not in text.lower():
        raise Failed(f"{type(refusal.error).__name__} does not say {saying!r}: {text}")
    if name and getattr(refusal.error, "name", "") != name:
        raise Failed(f"the error is {getattr(refusal.error, 'name', '')!r}, and should be {name!r}: {text}")


def eventually(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    """True once a condition comes true, and False if it does not within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-60:]}"
