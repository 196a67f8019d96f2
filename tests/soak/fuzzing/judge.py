# SPDX-License-Identifier: MIT
"""Judges a call's error: the exceptions that a call may raise, and the words that no user should read."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

#: Exceptions that tell of a fault of portamem's, whatever the arguments were.
NEVER = (SystemError, AssertionError, RecursionError, NameError, NotImplementedError, UnicodeError, AttributeError)

#: Words of the machinery below: of pybind11, of C++ and of private modules.
INTERNAL = re.compile(
    r"incompatible (function|constructor) arguments|pybind11|Unable to (cast|convert)|std::|\b_ZN?\w*\d\w*|"
    r"portamem\._\w+|\b_object\b|__init__\(\): |\barg\d\b|basic_string|vector::|bad_alloc|bad_cast|bad_optional|"
    r"0x[0-9a-f]+ in |\.cpp\b|\.hpp\b"
)


def is_nothing_there(error: BaseException) -> bool:
    """True where the call had nothing to be made on: None was drawn, or a kind without such a method."""
    if not isinstance(error, AttributeError) or "has no attribute" not in str(error):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return not frames or Path(frames[-1].filename).parent == Path(__file__).parent


def fault_of(error: BaseException, text: str) -> str | None:
    """Says what is wrong with an exception that the call ``text`` has raised; None where it is a proper refusal."""
    if isinstance(error, NEVER):
        return f"{text} raised {type(error).__name__}: {error}"
    if found := INTERNAL.search(str(error)):
        return f"{text} says {found[0]!r}: {type(error).__name__}: {error}"
    return None
