# SPDX-License-Identifier: MIT
"""Catches the reports that Python makes where an exception has nowhere to go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unraisable() -> Iterator[list[str]]:
    """Collects the exceptions that ``sys.unraisablehook`` is told in the block, as "Type: text"."""
    told: list[str] = []

    def hook(reported: Any) -> None:
        told.append(f"{type(reported.exc_value).__name__}: {reported.exc_value}")

    before, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield told
    finally:
        sys.unraisablehook = before
