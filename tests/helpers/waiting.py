"""Waiting for what happens soon: memory that a stream used goes back when the reaper comes by."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.expect import eventually

__all__ = ["close_when_empty", "eventually"]


def close_when_empty(resource: Any) -> None:
    """Closes a resource whose last buffers may be on their way back."""
    eventually(lambda: resource.is_closed or resource.live_buffers == 0, seconds=2.0)
    resource.close()
