# SPDX-License-Identifier: MIT
"""Advice on managed memory that holds within a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def preferred(buffer: Any, location: Any) -> Iterator[Any]:
    """Keeps pages at a location, and then where they were kept before, as the stub says of ``Buffer.preferred``."""
    before = buffer.range_attribute("preferred_location")
    buffer.advise("preferred_location", location)
    try:
        yield buffer
    except BaseException:
        with suppress(Exception):  # a refusal here must not hide the exception on its way
            _prefer(buffer, before)
        raise
    _prefer(buffer, before)


def _prefer(buffer: Any, location: Any) -> None:
    if buffer.is_closed:
        return
    if location is None:
        buffer.advise("unset_preferred_location")
    else:
        buffer.advise("preferred_location", location)
