# SPDX-License-Identifier: MIT
"""Files as ends of copies. Bytes go through a few pinned blocks, so that they are never whole in host memory. While the
device has one block, the file has the next."""

from __future__ import annotations

import io
import os
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from types import ModuleType
from typing import Any

from portamem import _loader
from portamem.errors import Error

_BLOCK = 4 << 20  # bytes
_BLOCKS = 8
_READERS = 4  # threads that read one file


def save(buffer: Any, file: Any, stream: Any, head: Callable[[Any], None] | None = None) -> None:
    """Writes a buffer's bytes to a file, as the stub says of ``Buffer.save``, behind what ``head(file)`` writes."""
    native = _loader.load(buffer.backend)
    with buffer[:] as whole, ExitStack() as after:  # whatever can be refused is, before a file is made anew
        on = _usable(native, stream)
        target = after.enter_context(opened(file, "wb", "write"))
        if head is not None:
            head(target)
        with closing(_pieces_of(native, whole, on, after)) as pieces:
            for piece in pieces:
                _write(target, piece)


def load(buffer: Any, file: Any, stream: Any) -> None:
    """Fills a buffer from a file, as the stub says of ``Buffer.load``."""
    native = _loader.load(buffer.backend)
    if buffer.readonly:
        raise ValueError("the buffer is read-only memory: load the file into memory of your own")
    with buffer[:] as whole, ExitStack() as after:
        on = _usable(native, stream)
        source = after.enter_context(opened(file, "rb", "read"))
        reader = _Reader(source, buffer.nbytes)
        (_load_here if whole.is_host_accessible else _load_through)(native, whole, reader, on, after)
        reader.done()


def _usable(native: ModuleType, stream: Any) -> Any:
    """A stream that takes work now, or None."""
    if stream is None:
        return None
    on = stream if isinstance(stream, native.Stream) else native.Stream.wrap(stream)
    if on.is_closed:
        raise ValueError("the stream is closed: name one that is open")
    if on.capture_status != "none":
        raise ValueError("the stream is captured: save and load before or after the capture")
    return on


@contextmanager
def opened(file: Any, mode: str, method: str) -> Iterator[Any]:
    """A file by its path, or a file object as it is, which has a method of this name."""
    if isinstance(file, (str, bytes, os.PathLike)):
        with open(file, mode) as found:
            yield found
    elif isinstance(file, io.TextIOBase):
        raise TypeError(f"the file is open as text: open it with mode {mode!r}")
    elif not hasattr(file, method):
        raise TypeError(f"a {type(file).__name__} is no path and no file: it has no method {method!r}")
    else:
        yield file


@contextmanager
def _lent(memory: memoryview) -> Iterator[memoryview]:
    """Memory for the time of a block. An exception's traceback would keep it for longer, and with it the Buffer's
    export. What the program itself keeps goes on."""
    try:
        yield memory
    finally:
        with suppress(BufferError):
            memory.release()


def _write(target: Any, piece: memoryview) -> None:
    written = 0
    while written < piece.nbytes:
        rest_bytes = piece.nbytes - written
        with _lent(piece[written:]) as rest:
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


class _Reader:
    """The next ``nbytes`` bytes of a file. Those of an ordinary file are read at any place, by several threads."""

    def __init__(self, file: Any, nbytes: int) -> None:
        self._file, self._nbytes = file, nbytes
        self._begin = _place_of(file)
        self._is_stopped = False
        if self._begin is None:
            return
        # One of its own: where a second Ctrl-C ends the wait for the threads, they still read this file.
        self._own = _Descriptor(file.fileno())
        there = max(os.fstat(self._own.number).st_size - self._begin, 0)
        if there < nbytes:
            raise ValueError(f"the file has {there} bytes from its place on, and the memory takes {nbytes}")

    def stop(self) -> None:
        """Has the threads read no more."""
        self._is_stopped = True

    @property
    def threads(self) -> int:
        """How many threads read it; 0 is the calling one alone."""
        return _READERS if self._begin is not None and self._nbytes > _BLOCK else 0

    def fill(self, target: memoryview, offset: int) -> None:
        """Reads what belongs at an offset. Of a file that is read in turn, it has to be the next offset."""
        done = 0
        while done < target.nbytes and not self._is_stopped:
            with _lent(target[done:]) as rest:
                if self._begin is not None:
                    count = os.preadv(self._own.number, [rest], self._begin + offset + done)
                else:
                    count = self._next(rest)
            if not count:
                raise EOFError(f"the file ended after {offset + done} of {self._nbytes} bytes")
            done += count

    def done(self) -> None:
        """Puts the file's place behind what was read."""
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


def _place_of(file: Any) -> int | None:
    """The place in an ordinary file whose bytes are those that ``file`` gives; None for any other file. (The descriptor
    of a compressed file gives other bytes.)"""
    raw = file.raw if type(file) in (io.BufferedReader, io.BufferedRandom) else file
    if type(raw) is not io.FileIO or not raw.readable():
        return None
    about = os.fstat(raw.fileno())
    if not stat.S_ISREG(about.st_mode) or about.st_size == 0:  # those that the system makes up say 0
        return None
    if type(file) is io.BufferedRandom:
        file.flush()
    return int(file.tell())


class _Workers:
    """Runs jobs on threads, which end with ``after``. Without threads a job runs when it is asked for."""

    def __init__(self, reader: _Reader, after: ExitStack) -> None:
        self._pool = ThreadPoolExecutor(reader.threads, "portamem-file") if reader.threads else None
        if self._pool is not None:
            after.callback(self._pool.shutdown, wait=True, cancel_futures=True)
            after.callback(reader.stop)

    def begin(self, job: Callable[..., None], *arguments: Any) -> Callable[[], None]:
        """Begins a job. The answer waits for it, and raises what it raised."""
        if self._pool is None:
            return lambda: job(*arguments)
        begun: Future[None] = self._pool.submit(job, *arguments)
        return begun.result


def _ranges(nbytes: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + _BLOCK, nbytes)) for begin in range(0, nbytes, _BLOCK)]


class _Blocks:
    """Pinned blocks, with the last copy of each, and the stream for the copies."""

    def __init__(self, native: ModuleType, whole: Any, stream: Any, after: ExitStack) -> None:
        pinned = native.PinnedMemoryResource(whole.device)
        size = min(_BLOCK, whole.nbytes)
        count = min(_BLOCKS, -(-whole.nbytes // _BLOCK))
        self._native, self._whole = native, whole
        self._memory = [pinned.allocate(size) for _ in range(count)]
        # Made before the first copy: a memoryview waits for all work that was declared on its memory.
        self._views = [memoryview(each) for each in self._memory]
        self._copied: list[Any] = [None] * count
        self._is_named = stream is not None
        self._on = stream if self._is_named else _stream_for(whole)
        after.callback(self._end)

    def __len__(self) -> int:
        return len(self._memory)

    def free(self, number: int) -> memoryview:
        """A block, once its last copy has run."""
        last = self._copied[number % len(self)]
        if last is not None:
            last.synchronize()
        return self._views[number % len(self)]

    def copy(self, number: int, begin: int, end: int, *, to_device: bool) -> None:
        """Queues the copy of one block. Where no stream is named, the first copy runs behind all work that was declared
        on the memory, and is done on return; the others follow it."""
        index = number % len(self)
        stream = self._on if self._is_named or number else None
        with self._whole[begin:end] as there, self._memory[index][: end - begin] as here:
            if to_device:
                self._copied[index] = there.copy_from(here, stream=stream)
            else:
                self._copied[index] = there.copy_to(here, stream=stream)

    def _end(self) -> None:
        for event in self._copied:
            if event is not None:
                event.synchronize()
        for view, memory in zip(self._views, self._memory, strict=True):
            with suppress(BufferError):  # a read that a second Ctrl-C left behind is still under way
                view.release()
                memory.close()


def _stream_for(whole: Any) -> Any:
    """A stream for the copies where none is named: the memory's own, so that no other is declared on it."""
    own = whole.stream
    try:
        is_usable = own.query() in (True, False) and own.capture_status == "none"
    except (ValueError, Error):  # closed, or another thread's
        is_usable = False
    return own if is_usable else whole.device.default_stream


def _load_here(native: ModuleType, whole: Any, reader: _Reader, stream: Any, after: ExitStack) -> None:
    """Reads to memory that the host reaches."""
    if stream is not None:
        stream.synchronize()
    memory = after.enter_context(_lent(memoryview(whole)))
    workers = _Workers(reader, after)

    def read(begin: int, end: int) -> None:
        with _lent(memory[begin:end]) as piece:
            reader.fill(piece, begin)

    reads: deque[Callable[[], None]] = deque()
    for begin, end in _ranges(whole.nbytes):
        if len(reads) == _BLOCKS:
            reads.popleft()()
        reads.append(workers.begin(read, begin, end))
    for each in reads:
        each()


def _load_through(native: ModuleType, whole: Any, reader: _Reader, stream: Any, after: ExitStack) -> None:
    """Reads to memory of a device alone."""
    ranges = _ranges(whole.nbytes)
    if not ranges:
        return
    blocks = _Blocks(native, whole, stream, after)
    workers = _Workers(reader, after)  # after the blocks, so that it ends before them

    def read(number: int) -> None:
        begin, end = ranges[number]
        with _lent(blocks.free(number)[: end - begin]) as block:
            reader.fill(block, begin)

    reads = deque(workers.begin(read, number) for number in range(len(blocks)))
    for number, (begin, end) in enumerate(ranges):
        reads.popleft()()
        blocks.copy(number, begin, end, to_device=True)
        if number + len(blocks) < len(ranges):
            reads.append(workers.begin(read, number + len(blocks)))


def _pieces_of(native: ModuleType, whole: Any, stream: Any, after: ExitStack) -> Generator[memoryview, None, None]:
    """The bytes of a buffer, a piece at a time, each good until the next is asked for."""
    ranges = _ranges(whole.nbytes)
    if not ranges:
        return
    if whole.is_host_accessible:
        if stream is not None:
            stream.synchronize()
        with _lent(memoryview(whole)) as memory:
            for begin, end in ranges:
                with _lent(memory[begin:end]) as piece:
                    yield piece
        return
    blocks = _Blocks(native, whole, stream, after)
    for number in range(len(ranges) + len(blocks)):
        done = number - len(blocks)
        if done >= 0:
            begin, end = ranges[done]
            with _lent(blocks.free(done)[: end - begin]) as piece:
                yield piece
        if number < len(ranges):
            blocks.copy(number, *ranges[number], to_device=False)
