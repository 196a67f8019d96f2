# SPDX-License-Identifier: MIT
"""Files that bytes are read from and written to: paths, and file objects of any kind."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def opened(file: Any, mode: str, method: str) -> Iterator[Any]:
    """A file by its path, or a file object as it is, which has a method of this name."""
    if isinstance(file, (str, bytes, os.PathLike)):
        with open(_path_of(file), mode) as found:
            yield found
    elif isinstance(file, io.TextIOBase):
        raise TypeError(f"the file is open as text: open it with mode {mode!r}")
    elif not hasattr(file, method):
        raise TypeError(f"a {type(file).__name__} is neither a path nor a file: it has no method {method!r}")
    else:
        yield file


def _path_of(file: Any) -> Any:
    """The path as the system takes it. Raises ValueError for text that no path can have, such as half a pair of
    surrogates or a null."""
    path = os.fspath(file)
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise ValueError(f"no file has the name {path!a}: give the path of a file, or an open file")
    return path


@contextmanager
def lent(memory: memoryview) -> Iterator[memoryview]:
    """Releases memory at the end of a block: the traceback of an exception would keep it, and with it the Buffer's
    export. A file object that keeps the memory for itself keeps it valid."""
    try:
        yield memory
    finally:
        with suppress(BufferError):
            memory.release()


def write_all(target: Any, piece: memoryview) -> None:
    """Writes all of ``piece``, also to a file that takes a part at a time."""
    written = 0
    while written < piece.nbytes:
        rest_bytes = piece.nbytes - written
        with lent(piece[written:]) as rest:
            count = target.write(rest)
        if count is None and isinstance(target, io.RawIOBase):
            raise BlockingIOError("the file takes no bytes now: it is open in non-blocking mode")
        written += rest_bytes if count is None else count


class _Descriptor:
    """Another number for an open file, which is closed with its last holder."""

    number = -1

    def __init__(self, of: int) -> None:
        self.number = os.dup(of)

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:
        if self.number >= 0:
            _close(self.number)


class Reader:
    """Reads the next ``nbytes`` bytes of a file. Threads may read an ordinary file, each at a position."""

    MOST_THREADS = 4
    _LEAST_FOR_THREADS = 4 << 20  # bytes

    def __init__(self, file: Any, nbytes: int) -> None:
        self._file, self._nbytes = file, nbytes
        self._begin = _position_of(file)
        self._is_stopped = False
        if self._begin is None:
            return
        # A descriptor of its own: where a second Ctrl-C ends the wait for the threads, they still read this file.
        self._own = _Descriptor(file.fileno())
        there = max(os.fstat(self._own.number).st_size - self._begin, 0)
        if there < nbytes:
            raise ValueError(f"the file has {there} bytes from its position on, and the memory takes {nbytes}")

    def stop(self) -> None:
        """Has the threads read no more."""
        self._is_stopped = True

    @property
    def threads(self) -> int:
        """How many threads read it; 0 is the calling one alone."""
        return self.MOST_THREADS if self._begin is not None and self._nbytes > self._LEAST_FOR_THREADS else 0

    def fill(self, target: memoryview, offset: int) -> None:
        """Reads what belongs at an offset. Of a file that is read in turn, it has to be the next offset."""
        done = 0
        while done < target.nbytes and not self._is_stopped:
            with lent(target[done:]) as rest:
                if self._begin is not None:
                    count = os.preadv(self._own.number, [rest], self._begin + offset + done)
                else:
                    count = self._next(rest)
            if not count:
                raise EOFError(f"the file ended after {offset + done} of {self._nbytes} bytes")
            done += count

    def done(self) -> None:
        """Moves the file's position behind what was read."""
        if self._begin is not None:
            self._file.seek(self._begin + self._nbytes)

    def _next(self, target: memoryview) -> int:
        if hasattr(self._file, "readinto"):
            count = self._file.readinto(target)
        else:
            data = self._file.read(target.nbytes)
            count = None if data is None else len(data)
            if count:
                target[:count] = data
        if count is None:
            raise BlockingIOError("the file gives no bytes now: it is open in non-blocking mode")
        return int(count)


def _position_of(file: Any) -> int | None:
    """The position of an ordinary file, whose descriptor gives the bytes that ``file`` gives; None for any other file,
    such as a compressed one."""
    raw = file.raw if type(file) in (io.BufferedReader, io.BufferedRandom) else file
    if type(raw) is not io.FileIO or not raw.readable():
        return None
    about = os.fstat(raw.fileno())
    if not stat.S_ISREG(about.st_mode) or about.st_size == 0:  # those that the system makes up say 0
        return None
    if type(file) is io.BufferedRandom:
        file.flush()
    return int(file.tell())
