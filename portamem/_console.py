# SPDX-License-Identifier: MIT
"""The command line's output: text comes out as it is, whatever it holds and wherever it goes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(width: int, **settings: Any) -> Console:
    """Makes a console, which has that width where it is no terminal. No ``:name:`` in a text is an emoji."""
    from rich.console import Console  # imported on first use only

    out = Console(highlight=False, emoji=False, **settings)
    return out if out.is_terminal else Console(highlight=False, emoji=False, width=width, **settings)


def prepare_streams() -> None:
    """Makes outputs escape what their encoding lacks. Raises ValueError where there is no standard output."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:
        raise ValueError("standard output is closed: there is nowhere to write to")


def give_up_stdout() -> None:
    """Leaves what cannot be written, so that Python's own last flush is quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return  # it is no file


def say(text: str) -> None:
    """A line on standard error, if there is any."""
    if sys.stderr is not None:
        print(f"portamem: {text}", file=sys.stderr)
