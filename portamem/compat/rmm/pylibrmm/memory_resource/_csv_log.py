# SPDX-License-Identifier: MIT
"""The log of allocations and frees as comma-separated values."""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import datetime

import portamem
from portamem.compat.rmm.pylibrmm import logger
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource, WatchingAdaptor, as_resource
from portamem.compat.rmm.pylibrmm.stream import Stream

HEADER = "Thread,Time,Action,Pointer,Size,Stream"


class LoggingResourceAdaptor(WatchingAdaptor):
    """Writes each allocation and each free that goes through it to a file, a line each, with RMM's columns. Each of
    them calls Python: ``portamem.LoggingAdaptor`` writes a log of its own form at less cost."""

    __slots__ = ("_log",)

    def __init__(self, upstream_mr: DeviceMemoryResource, log_file_name: str | os.PathLike[str] | None = None) -> None:
        """Makes an adaptor over ``upstream_mr`` and begins its file anew. The file is ``log_file_name``, or else what
        RMM_LOG_FILE says, with the number of the device before the extension: ``rmm.csv`` becomes ``rmm.dev0.csv``.
        The file is complete when the adaptor and the last memory of it have ended, or the process exits; a forked child
        writes nothing to it.

        Raises ValueError where no name is given, and OSError where the file cannot be written.
        """
        upstream = as_resource(upstream_mr, "upstream_mr")
        below = upstream.resource
        self._log = _Log(below, _path_for(log_file_name, below.device.ordinal))
        resource = portamem.CallbackMemoryResource(
            self._log.allocate,
            self._log.deallocate,
            device=below.device,
            kind=below.kind,
            host_accessible=below.is_host_accessible,
            stream_ordered=below.is_stream_ordered,
        )
        super().__init__(upstream, resource)

    def flush(self) -> None:
        """Hands what is written so far to the system. Raises the OSError for which the log is not written any more; no
        allocation and no free fails for it."""
        self._log.flush()

    def get_file_name(self) -> str:
        """The absolute path of the file."""
        return self._log.path


class _Log:
    """The two functions that log. It knows nothing of the adaptor, which would else live for good. Lines wait in a
    queue, and one thread at a time writes them: a collection of garbage may log a free while this thread is writing."""

    def __init__(self, upstream: portamem.MemoryResource, path: str) -> None:
        import weakref

        self.path = path
        self._upstream = upstream
        self._lines = deque([HEADER])
        self._lock = threading.Lock()
        self._file = _File(path)
        weakref.finalize(self, self._file.close, self._lines)
        self._drain()

    def allocate(self, nbytes: int, stream: portamem.Stream) -> int:
        try:
            address = self._upstream.allocate(nbytes, stream=stream).release()
        except BaseException:
            self._write("allocate failure", "(nil)", nbytes, stream)
            raise
        try:
            self._write("allocate", f"{address:#x}", nbytes, stream)
        except BaseException:
            self._upstream.deallocate(address, nbytes, stream=stream)
            raise
        return address

    def deallocate(self, ptr: int, nbytes: int, stream: portamem.Stream) -> None:
        # The line is written first: once the memory is free, another thread may get it and write that at once.
        self._write("free", f"{ptr:#x}", nbytes, stream)
        self._upstream.deallocate(ptr, nbytes, stream=stream)

    def flush(self) -> None:
        if not self._file.is_ours():
            return
        with self._lock:
            self._file.write(self._lines)
            self._file.flush()
        if self._file.error is not None:
            raise self._file.error

    def _write(self, action: str, pointer: str, nbytes: int, stream: portamem.Stream) -> None:
        when = datetime.now().strftime("%H:%M:%S.%f")
        number = Stream._of(stream).__cuda_stream__()[1]
        self._lines.append(f"{threading.get_native_id()},{when},{action},{pointer},{nbytes},{number:#x}")
        self._drain()

    def _drain(self) -> None:
        while self._lines and self._lock.acquire(blocking=False):
            try:
                self._file.write(self._lines)
            finally:
                self._lock.release()


class _File:
    """The file, with what is not written to it yet. A file that cannot be written must not fail an allocation or a
    free: the first error is logged and kept, and nothing is written from then on. A forked child writes nothing."""

    _MOST = 1 << 16

    def __init__(self, path: str) -> None:
        self.error: OSError | None = None
        self._path = path
        self._pid = os.getpid()
        self._waiting = bytearray()
        with open(path, "wb"):
            pass  # the file begins anew; an older log that still has it open writes behind its lines
        self._raw = open(path, "ab", buffering=0)  # noqa: SIM115  # open as long as the log lives

    def is_ours(self) -> bool:
        return os.getpid() == self._pid

    def write(self, lines: deque[str]) -> None:
        """Takes all lines, and writes them when they are many."""
        while lines:
            self._waiting += f"{lines.popleft()}\n".encode()
        if len(self._waiting) >= self._MOST:
            self.flush()

    def flush(self) -> None:
        """Writes what waits, in whole lines."""
        waiting, self._waiting = self._waiting, bytearray()
        if self.error is not None or self._raw.closed or not self.is_ours():
            return  # at exit the file is closed before the last memory goes
        try:
            while waiting:
                del waiting[: self._raw.write(waiting)]
        except OSError as error:
            # A new one: the frames of this one hold what the callers hold, the buffer that is allocated among it.
            self.error = OSError(error.errno, error.strerror, self._path)
            logger.log(logger.level_enum.error, f"the log {self._path} is not written any more: {error}")

    def close(self, lines: deque[str]) -> None:
        self.write(lines)
        self.flush()
        self._raw.close()


def _path_for(name: str | os.PathLike[str] | None, device: int) -> str:
    given = os.fsdecode(name) if name is not None else os.environ.get("RMM_LOG_FILE", "")
    if not given:
        raise ValueError("the log has no file: pass log_file_name=, or set RMM_LOG_FILE")
    stem, extension = os.path.splitext(os.path.abspath(given))
    return f"{stem}.dev{device}{extension}"
