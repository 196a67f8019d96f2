# SPDX-License-Identifier: MIT
"""Files as ends of copies. Bytes go through a few pinned blocks, so that they are never whole in host memory. While the
device has one block, the file has the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from types import ModuleType
from typing import Any

from portamem import _loader
from portamem._file_ends import Reader, lent, opened, write_all
from portamem.errors import Error

_BLOCK = 4 << 20  # bytes
_BLOCKS = 8


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
                write_all(target, piece)


def load(buffer: Any, file: Any, stream: Any) -> None:
    """Fills a buffer from a file, as the stub says of ``Buffer.load``."""
    native = _loader.load(buffer.backend)
    if buffer.readonly:
        raise ValueError("the buffer is read-only memory: load the file into memory of your own")
    with buffer[:] as whole, ExitStack() as after:
        on = _usable(native, stream)
        source = after.enter_context(opened(file, "rb", "read"))
        reader = Reader(source, buffer.nbytes)
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


class _Workers:
    """Runs jobs on threads, which end with ``after``. Without threads a job runs when it is asked for."""

    def __init__(self, reader: Reader, after: ExitStack) -> None:
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
        self._whole = whole
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
        own.query()  # refuses a stream that is closed, or another thread's
        is_usable = own.capture_status == "none"
    except (ValueError, Error):
        is_usable = False
    return own if is_usable else whole.device.default_stream


def _load_here(native: ModuleType, whole: Any, reader: Reader, stream: Any, after: ExitStack) -> None:
    """Reads to memory that the host reaches."""
    if stream is not None:
        stream.synchronize()
    memory = after.enter_context(lent(memoryview(whole)))
    workers = _Workers(reader, after)

    def read(begin: int, end: int) -> None:
        with lent(memory[begin:end]) as piece:
            reader.fill(piece, begin)

    reads: deque[Callable[[], None]] = deque()
    for begin, end in _ranges(whole.nbytes):
        if len(reads) == _BLOCKS:
            reads.popleft()()
        reads.append(workers.begin(read, begin, end))
    for each in reads:
        each()


def _load_through(native: ModuleType, whole: Any, reader: Reader, stream: Any, after: ExitStack) -> None:
    """Reads to memory of a device alone."""
    ranges = _ranges(whole.nbytes)
    if not ranges:
        return
    blocks = _Blocks(native, whole, stream, after)
    workers = _Workers(reader, after)  # after the blocks, so that it ends before them

    def read(number: int) -> None:
        begin, end = ranges[number]
        with lent(blocks.free(number)[: end - begin]) as block:
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
        with lent(memoryview(whole)) as memory:
            for begin, end in ranges:
                with lent(memory[begin:end]) as piece:
                    yield piece
        return
    blocks = _Blocks(native, whole, stream, after)
    for number in range(len(ranges) + len(blocks)):
        done = number - len(blocks)
        if done >= 0:
            begin, end = ranges[done]
            with lent(blocks.free(done)[: end - begin]) as piece:
                yield piece
        if number < len(ranges):
            blocks.copy(number, *ranges[number], to_device=False)
