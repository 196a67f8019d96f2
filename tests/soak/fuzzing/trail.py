# SPDX-License-Identifier: MIT
"""The last calls of a child process, in a file that outlives it: each thread writes its call before it makes it."""

from __future__ import annotations

import mmap
from pathlib import Path

LINE = 256  # bytes of one call's text
LINES = 32  # the last calls of one thread


class Trail:
    """A ring of texts for each thread, and how many calls it has begun."""

    def __init__(self, path: Path, threads: int) -> None:
        self._size = 8 + LINES * LINE
        if not path.exists():
            path.write_bytes(bytes(threads * self._size))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 0)
        self._threads = threads

    def begin(self, thread: int, number: int, text: str) -> None:
        """The thread is about to make its call ``number``."""
        at = thread * self._size
        line = at + 8 + number % LINES * LINE
        self._bytes[line : line + LINE] = text.encode("utf-8", "backslashreplace")[:LINE].ljust(LINE, b"\0")
        self._bytes[at : at + 8] = (number + 1).to_bytes(8, "little")

    def begun(self) -> list[int]:
        """The number of calls that each thread has begun."""
        starts = [thread * self._size for thread in range(self._threads)]
        return [int.from_bytes(self._bytes[at : at + 8], "little") for at in starts]

    def last(self, count: int = 8) -> list[str]:
        """The last calls of each thread, the latest at the end."""
        texts = []
        for thread, begun in enumerate(self.begun()):
            for number in range(max(0, begun - min(count, LINES)), begun):
                line = thread * self._size + 8 + number % LINES * LINE
                text = self._bytes[line : line + LINE].rstrip(b"\0").decode("utf-8", "replace")
                texts.append(f"thread {thread}, call {number}: {text}")
        return texts
