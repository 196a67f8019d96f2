# SPDX-License-Identifier: MIT
"""RMM's streams, over portamem's."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import portamem

_DEFAULT, _LEGACY, _PER_THREAD = 0, 1, 2


class CudaStreamFlags(IntEnum):
    """How the work of a new stream stands to that of the legacy default stream."""

    SYNC_DEFAULT = 0
    """It is ordered with the default stream's work."""
    NON_BLOCKING = 1
    """It runs beside the default stream's work, unordered with it."""


class Stream:
    """An in-order queue of work on a device.

    It owns a new stream of the calling thread's current device, or keeps the stream object that it was made from
    alive. A default stream (the numbers 0, 1 and 2) is no stream of one device: in each call it is the default stream
    of the device whose memory the call is about. Streams are equal if their numbers are.
    """

    __slots__ = ("__weakref__", "_native", "_number")

    _native: portamem.Stream | None  # None for a default stream
    _number: int

    def __init__(self, obj: Any = None, flags: CudaStreamFlags | int | None = None) -> None:
        """Creates a stream, or takes that of ``obj``: a Stream of this module or of portamem, an object with
        ``__cuda_stream__``, or a stream of Numba, CuPy, PyTorch, cuda-python or hip-python.

        ``flags``, for a new stream only, is by default ``CudaStreamFlags.SYNC_DEFAULT``. Raises ValueError for flags
        beside an object, TypeError for an object that is no stream, and NotImplementedError for a version of
        ``__cuda_stream__`` that portamem does not know.
        """
        if obj is None:
            is_nonblocking = CudaStreamFlags(flags or 0) is CudaStreamFlags.NON_BLOCKING
            self._take(portamem.Stream(nonblocking=is_nonblocking))
        elif flags is not None:
            raise ValueError("flags may only be specified when obj is None: the stream of an object has its own")
        elif isinstance(obj, Stream):
            self._native, self._number = obj._native, obj._number
        elif isinstance(obj, portamem.Stream):
            self._take(obj)
        else:
            self._wrap(obj)

    @classmethod
    def _of(cls, native: portamem.Stream) -> Stream:
        """The stream that a callback of the program is told, for one of portamem's."""
        if native.is_default:
            return DEFAULT_STREAM if native == native.device.default_stream else PER_THREAD_DEFAULT_STREAM
        found = cls.__new__(cls)
        found._take(native)
        return found

    @classmethod
    def _numbered(cls, number: int) -> Stream:
        """A default stream."""
        found = cls.__new__(cls)
        found._native, found._number = None, number
        return found

    def _take(self, native: portamem.Stream) -> None:
        self._native, self._number = native, native.handle

    def _wrap(self, obj: Any) -> None:
        number = _number_of(obj)
        if number in (_DEFAULT, _LEGACY, _PER_THREAD):
            self._native, self._number = None, number
        elif number is None or hasattr(obj, "__cuda_stream__"):
            self._take(portamem.Stream.wrap(obj))
        else:
            self._take(portamem.Stream.from_handle(number, owner=obj))

    def on(self, device: portamem.Device) -> portamem.Stream:
        """portamem's stream for a call about memory of ``device``. A default stream is that of the device, or of the
        device and the calling thread; every other stream is its own, whatever device it is on."""
        if self._native is not None:
            return self._native
        return device.per_thread_stream if self._number == _PER_THREAD else device.default_stream

    def synchronize(self) -> None:
        """Blocks until all work that was submitted to the stream so far has run: of a default stream that of the
        calling thread's current device. Raises ValueError while the stream is captured."""
        (self._native or self.on(portamem.Device())).synchronize()

    def is_default(self) -> bool:
        """Tells whether it is the legacy default stream. What this module queues there is done on return."""
        return self._number in (_DEFAULT, _LEGACY)

    def __cuda_stream__(self) -> tuple[int, int]:
        """``(0, number)``: the protocol by which other libraries take a stream."""
        return (0, self._number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._number == other._number

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return f"<portamem.compat.rmm Stream {self._number:#x}>"


def _number_of(obj: Any) -> int | None:
    """The number of a foreign stream object, or None where portamem itself knows how to ask for it."""
    protocol = getattr(obj, "__cuda_stream__", None)
    if protocol is not None:
        version, number = protocol()
        if version != 0:
            raise NotImplementedError(
                f"__cuda_stream__ of {type(obj).__name__} has version: '{version}', and portamem knows version 0"
            )
        return int(number)
    if type(obj).__module__.partition(".")[0].startswith("numba"):
        return int(obj)  # Numba's streams say their number by no attribute
    return None


DEFAULT_STREAM = Stream._numbered(_DEFAULT)
"""The default stream of the device that a call is about."""
LEGACY_DEFAULT_STREAM = Stream._numbered(_LEGACY)
"""The same stream, by its own number."""
PER_THREAD_DEFAULT_STREAM = Stream._numbered(_PER_THREAD)
"""The calling thread's own default stream of the device that a call is about."""
