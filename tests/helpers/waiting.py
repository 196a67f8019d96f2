"""Waiting for what happens soon: memory that a stream used goes back when the reaper comes by."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether a condition comes true within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def close_when_empty(resource: Any) -> None:
    """Closes a resource whose last buffers may be on their way back."""
    eventually(lambda: resource.is_closed or resource.live_buffers == 0, seconds=2.0)
    resource.close()
