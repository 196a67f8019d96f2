# SPDX-License-Identifier: MIT
"""Latches: kernels that hold a stream until released. With them order is seen, never guessed from timing."""

from __future__ import annotations

import ctypes
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portamem.conformance.witness.base import Witness

TIMEOUT_S = 10.0

_ENTERED, _RELEASED, _TIMED_OUT, _LEFT = range(4)


class DeviceLatch:
    """A kernel at the head of a stream that runs until released. Ends by itself after a timeout, so nothing hangs.

    It spins on pinned memory that the host watches and writes; both are there once the latch is made, so that holding
    a stream allocates nothing.
    """

    def __init__(self, witness: Witness, stream: int) -> None:
        self._witness, self._stream = witness, stream
        self._is_held = False
        self._address = witness.host_malloc(16)
        self._words = (ctypes.c_uint32 * 4).from_address(self._address)
        self._words[:] = [0, 0, 0, 0]

    def hold(self) -> DeviceLatch:
        """Queues the latch, and waits until it stands at the head of the stream."""
        if self._is_held:
            raise RuntimeError("a latch holds its stream once: make another")
        self._witness.launch("latch", self._stream, 1, 1, self._address, self._witness.latch_ticks(TIMEOUT_S))
        self._is_held = True
        if not self._wait(_ENTERED):
            raise TimeoutError("the stream never came to the latch")
        return self

    def release(self) -> None:
        self._words[_RELEASED] = 1

    @property
    def timed_out(self) -> bool:
        """True where the latch opened by itself: something waited for it that only a release could have let go on."""
        return self._words[_TIMED_OUT] != 0

    def close(self) -> None:
        """Releases the stream and gives the words back once the kernel has left them. ``timed_out`` stays readable."""
        if not self._address:
            return
        self.release()
        if self._is_held and not self._wait(_LEFT):
            return  # the kernel may still come to its words: they are kept
        address, self._address = self._address, 0
        kept = (ctypes.c_uint32 * 4)(*self._words)
        self._words = kept
        self._witness.host_free(address)

    def _wait(self, word: int) -> bool:
        deadline = time.monotonic() + 2 * TIMEOUT_S
        while not self._words[word]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)
        return True

    def __enter__(self) -> DeviceLatch:
        return self.hold()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()
