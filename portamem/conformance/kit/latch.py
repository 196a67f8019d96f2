# SPDX-License-Identifier: MIT
"""Latches: host functions that hold a stream until released. With them order is seen, never guessed from timing."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

TIMEOUT_S = 10.0


class Latch:
    """Holds a stream from ``hold(stream)`` until ``release()``. Opens by itself after a timeout, so nothing hangs.

    One latch at a time: vendors may run the host functions of all streams on one thread.
    """

    def __init__(self) -> None:
        self._released = threading.Event()
        self._entered = threading.Event()
        self.timed_out = False

    def _wait(self) -> None:
        """Runs on the runtime's thread: calls nothing of portamem."""
        self._entered.set()
        self.timed_out = not self._released.wait(TIMEOUT_S)

    def hold(self, stream: Any) -> Latch:
        """Queues the latch on a stream, and waits until it stands at the stream's head."""
        stream.launch_host_func(self._wait)
        if not self._entered.wait(TIMEOUT_S):
            raise TimeoutError("the stream never came to the latch")
        return self

    def release(self) -> None:
        self._released.set()

    def release_soon(self, seconds: float = 0.03) -> None:
        """Releases from another Python thread: for calls that block meanwhile. Needs that they let go of the GIL."""
        threading.Timer(seconds, self.release).start()

    def __enter__(self) -> Latch:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.release()
