# SPDX-License-Identifier: MIT
"""How the calls of this module take a stream."""

from __future__ import annotations

from typing import Any

from portamem.compat.rmm.pylibrmm.stream import Stream


def as_stream(stream: Any) -> Stream:
    """A Stream as it is, and any other stream object wrapped. Raises TypeError for None and for what is no stream."""
    if isinstance(stream, Stream):
        return stream
    if stream is None:
        raise TypeError("stream argument cannot be None: leave it out for the default stream")
    return Stream(stream)
