# SPDX-License-Identifier: MIT
"""The log of allocations and frees as comma-separated values."""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import datetime
from io import BufferedWriter

import portamem
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
        The file is complete when the adaptor and the last memory of it have ended, or the process exits.

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
        """Hands what is written so far to the system."""
        self._log.flush()

    def get_file_name(self) -> str:
        """The absolute path of the file."""
        return self._log.path


class _Log:
    """The file and the two functions that write it. It knows nothing of the adaptor, which would else live for good.
    Lines wait in a queue, and one thread at a time writes them: a collection of garbage may log a free while this
    thread is writing."""

    def __init__(self, upstream: portamem.MemoryResource, path: str) -> None:
        import weakref

        self.path = path
        self._upstream = upstream
        self._lines = deque([HEADER])
        self._lock = threading.Lock()
        self._file = open(path, "wb")  # noqa: SIM115  # open as long as this object lives
        weakref.finalize(self, _close, self._file, self._lines)
        self._drain()

    def allocate(self, nbytes: int, stream: portamem.Stream) -> int:
        try:
            address = self._upstream.allocate(nbytes, stream=stream).release()
        except BaseException:
            self._write("allocate failure", "(nil)", nbytes, stream)
            raise
        self._write("allocate", f"{address:#x}", nbytes, stream)
        return address

    def deallocate(self, ptr: int, nbytes: int, stream: portamem.Stream) -> None:
        # The line is written first: once the memory is free, another thread may get it and write that at once.
        self._write("free", f"{ptr:#x}", nbytes, stream)
        self._upstream.deallocate(ptr, nbytes, stream=stream)

    def flush(self) -> None:
        self._drain()
        with self._lock:
            if not self._file.closed:
                self._file.flush()

    def _write(self, action: str, pointer: str, nbytes: int, stream: portamem.Stream) -> None:
        when = datetime.now().strftime("%H:%M:%S.%f")
        number = Stream._of(stream).__cuda_stream__()[1]
        self._lines.append(f"{threading.get_native_id()},{when},{action},{pointer},{nbytes},{number:#x}")
        self._drain()

    def _drain(self) -> None:
        while self._lines and self._lock.acquire(blocking=False):
            try:
                _write_all(self._file, self._lines)
            finally:
                self._lock.release()


def _write_all(file: BufferedWriter, lines: deque[str]) -> None:
    while lines:
        line = lines.popleft()
        if not file.closed:  # at exit it is closed before the last memory goes
            file.write(f"{line}\n".encode())


def _close(file: BufferedWriter, lines: deque[str]) -> None:
    _write_all(file, lines)
    file.close()


def _path_for(name: str | os.PathLike[str] | None, device: int) -> str:
    given = os.fspath(name) if name is not None else os.environ.get("RMM_LOG_FILE", "")
    if not given:
        raise ValueError("the log has no file: pass log_file_name=, or set RMM_LOG_FILE")
    stem, extension = os.path.splitext(os.path.abspath(given))
    return f"{stem}.dev{device}{extension}"
