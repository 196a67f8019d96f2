# SPDX-License-Identifier: MIT
"""RMM's DeviceBuffer: bytes of a resource that can grow."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, SupportsIndex

import portamem
from portamem.compat.rmm._sizes import nbytes_of
from portamem.compat.rmm.pylibrmm._copies import copy_device_to_ptr, copy_host_to_ptr, copy_ptr_to_host, finish
from portamem.compat.rmm.pylibrmm._host_bytes import host_bytes
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource, as_resource
from portamem.compat.rmm.pylibrmm.memory_resource._per_device import get_current_device_resource
from portamem.compat.rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from portamem.compat.rmm.pylibrmm.utils import as_stream
from portamem.interop.array_interface import describe

__all__ = ["DeviceBuffer", "copy_device_to_ptr", "copy_host_to_ptr", "copy_ptr_to_host", "to_device"]

_HOST = -1  # the number by which CUDA's runtime names the CPU where it takes a device


class DeviceBuffer:
    """Untyped memory with its resource and its stream, which it keeps alive. It can grow.

    When it ends, the memory goes back to the resource that gave it, behind the work on the streams of the buffer: that
    of the allocation, and those of ``resize`` and ``reserve``. Use on other streams must have run by then, or be
    ordered before. A copy on the default stream is done on return; on another stream it is queued. One buffer is not
    for several threads at once.
    """

    __slots__ = ("__weakref__", "_buffer", "_mr", "_size", "_stream")

    def __init__(
        self,
        *,
        ptr: int = 0,
        size: SupportsIndex = 0,
        stream: Stream = DEFAULT_STREAM,
        mr: DeviceMemoryResource | None = None,
    ) -> None:
        """Allocates ``size`` bytes of ``mr``, or of the current device's resource for None, in the order of ``stream``.
        With a ``ptr`` it copies that many bytes from this address, of the device or of the host; the caller keeps them
        until they are copied.

        Raises MemoryError where there is no memory, ValueError for a size below 0 and for a ``ptr`` of no memory, and
        TypeError for a stream or resource that is none.
        """
        self._buffer: portamem.Buffer | None = None  # the capacity; None for 0 bytes
        self._stream = as_stream(stream)
        self._mr = get_current_device_resource() if mr is None else as_resource(mr)
        self._size = nbytes_of(size)
        if self._size:
            self._buffer = self._mr._take(self._size, self._stream)
            if ptr:
                source = portamem.Buffer.from_handle(ptr, self._size)
                finish(self._buffer.copy_from(source, stream=self._native(self._stream)), self._stream)

    def __del__(self, _is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        # The memory goes back now and not when a thread of portamem comes by: programs read the counts next. When the
        # interpreter goes down, portamem leaks it; by then this module may have lost its names.
        buffer = getattr(self, "_buffer", None)
        if buffer is not None and not _is_exiting():
            # Where the close is refused (part of it is in use elsewhere, a capture is open, a function of the program
            # fails), portamem's own buffer tries again when it ends, which is now, and reports what fails then.
            try:  # noqa: SIM105 (suppress() would cost more than the close)
                buffer.close()
            except Exception:
                pass

    @property
    def mr(self) -> DeviceMemoryResource:
        """The resource that gave the memory."""
        return self._mr

    @property
    def stream(self) -> Stream:
        """The stream of the allocation, or of the last ``resize`` or ``reserve``."""
        return self._stream

    @property
    def buffer(self) -> portamem.Buffer | None:
        """The bytes as a Buffer of portamem, which keeps this memory alive until it is closed, also if the DeviceBuffer
        grows elsewhere or ends. None for 0 bytes."""
        return None if self._buffer is None or not self._size else self._buffer[: self._size]

    @property
    def ptr(self) -> int:
        """The address of the first byte; 0 where no memory is allocated."""
        return 0 if self._buffer is None else self._buffer.handle

    @property
    def size(self) -> int:
        """The bytes in use."""
        return self._size

    @property
    def nbytes(self) -> int:
        """The bytes in use."""
        return self._size

    def capacity(self) -> int:
        """The bytes that are allocated: at least as many as are in use."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def __len__(self) -> int:
        return self._size

    def __sizeof__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self.tobytes()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The bytes as GPU array libraries take them, in version 0, which names no stream: the caller orders the work.
        On the CPU runtime it describes memory of that runtime, which no GPU reaches."""
        return {"data": (self.ptr, False), "shape": (self._size,), "strides": None, "typestr": "|u1", "version": 0}

    def reserve(self, new_capacity: SupportsIndex, stream: Stream = DEFAULT_STREAM) -> None:
        """Makes the capacity at least ``new_capacity`` bytes. What is in use is copied to new memory in the order of
        ``stream``, which is the buffer's stream from then on; the old memory goes back behind the copy.

        Raises MemoryError where there is no memory; the buffer is as before then.
        """
        self._have(nbytes_of(new_capacity), as_stream(stream))

    def resize(self, new_size: SupportsIndex, stream: Stream = DEFAULT_STREAM) -> None:
        """Makes ``new_size`` bytes the size, and keeps the contents as far as they fit. Beyond the capacity, memory is
        had as ``reserve`` says. Bytes that are added have no particular value."""
        size = nbytes_of(new_size)
        self._have(size, as_stream(stream))
        self._size = size

    def copy(self) -> DeviceBuffer:
        """A new buffer with the same bytes, from the same resource and on the same stream."""
        made = DeviceBuffer(size=self._size, stream=self._stream, mr=self._mr)
        if self._buffer is not None and made._buffer is not None:
            native = made._native(self._stream)
            finish(made._buffer.copy_from(self._buffer[: self._size], stream=native), self._stream)
        return made

    def __copy__(self) -> DeviceBuffer:
        return self.copy()

    @staticmethod
    def to_device(b: Any, stream: Stream = DEFAULT_STREAM) -> DeviceBuffer:
        """A new buffer with a copy of ``b``, as the function ``to_device`` of this module makes it."""
        return to_device(b, stream)

    def copy_to_host(self, ary: Any = None, stream: Stream = DEFAULT_STREAM) -> Any:
        """Copies all bytes to ``ary``, writable bytes-like memory of at least that size, and answers it. For None it is
        a new NumPy array of ``uint8``, and the bytes are there on return, on every stream.

        Raises ValueError for memory that is too small, read-only, or no row of bytes; TypeError for an object that has
        no memory.
        """
        stream = as_stream(stream)
        if ary is None:
            import numpy as np

            made = np.empty(self._size, dtype="u1")
            self._read(made, stream)
            return made
        target = host_bytes(ary, "ary")
        if target.nbytes < self._size:
            raise ValueError(f"Argument `ary` is too small: it has {target.nbytes} bytes of {self._size}")
        if self._buffer is not None and self._size:
            event = self._buffer[: self._size].copy_to(target[: self._size], stream=self._native(stream))
            finish(event, stream)
        return ary

    def copy_from_host(self, ary: Any, stream: Stream = DEFAULT_STREAM) -> None:
        """Copies ``ary``, bytes-like memory, to the first bytes of the buffer; the others stay. ``ary`` is kept alive
        until the copy has run. Raises ValueError for more bytes than the buffer has, and as ``copy_to_host``."""
        stream, source = as_stream(stream), host_bytes(ary, "ary")
        self._write(source, source.nbytes, "ary", stream)

    def copy_from_device(self, cuda_ary: Any, stream: Stream = DEFAULT_STREAM) -> None:
        """Copies the memory of ``cuda_ary``, an object with ``__cuda_array_interface__``, to the first bytes of the
        buffer; the others stay. The object is kept alive until the copy has run, which waits for the stream that the
        interface names.

        Raises ValueError for an object without the interface, for more dimensions than one, for gaps between the
        elements, and for more bytes than the buffer has.
        """
        stream = as_stream(stream)
        if cuda_ary is self:
            return
        if isinstance(cuda_ary, DeviceBuffer):
            self._write(cuda_ary.buffer, cuda_ary.size, "cuda_ary", stream)
            return
        interface = getattr(cuda_ary, "__cuda_array_interface__", None)
        if interface is None:
            raise ValueError(
                f"a {type(cuda_ary).__name__} has no `__cuda_array_interface__`: copy_from_host takes host memory"
            )
        described = describe(interface, "the array")
        if len(described.shape) > 1:
            raise ValueError(f"the array has {len(described.shape)} dimensions: flatten it to one")
        if not described.nbytes:
            return
        source = portamem.Buffer.from_handle(described.pointer, described.nbytes, owner=cuda_ary)
        producer = interface.get("stream")
        if producer is not None:
            device = source.device if producer in (0, 1, 2) else None  # a default stream is that of the memory's device
            self._native(stream).wait(portamem.Stream.from_handle(producer, device=device))
        self._write(source, described.nbytes, "cuda_ary", stream)

    def tobytes(self, stream: Stream = DEFAULT_STREAM) -> bytes:
        """The contents, which are there on return, on every stream."""
        return bytes(self._bytes(as_stream(stream)))

    def prefetch(self, device: SupportsIndex | None = None, stream: Stream | None = None) -> None:
        """Moves managed memory to a device: an ordinal, or -1 for the host; None is the calling thread's current one.
        The move is queued on ``stream``, by default the buffer's. Does nothing for memory that does not move."""
        if self._buffer is None or not self._size:
            return
        ordinal = portamem.Device().ordinal if device is None else int(device)
        native = self._native(self._stream if stream is None else as_stream(stream))
        moving = self._moving_part()
        if moving is not None:
            self._buffer.record_stream(native)  # the part may be foreign to the buffer
            moving.prefetch("host" if ordinal == _HOST else ordinal, stream=native)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """The contents for pickle: out of band where the protocol can."""
        found = self._bytes(DEFAULT_STREAM)
        if int(protocol) >= 5:
            return to_device, (pickle.PickleBuffer(found),)
        return to_device, (bytes(found),)

    def _native(self, stream: Stream) -> portamem.Stream:
        """portamem's stream for work on this buffer."""
        return stream.on(self._mr._device)

    def _have(self, capacity: int, stream: Stream) -> None:
        """Makes the capacity at least ``capacity`` bytes, and the stream the buffer's own."""
        native = self._native(stream)
        if capacity > self.capacity():
            grown = self._mr._take(capacity, stream)
            if self._buffer is not None and self._size:
                finish(grown[: self._size].copy_from(self._buffer[: self._size], stream=native), stream)
            old, self._buffer, self._stream = self._buffer, grown, stream
            if old is not None:
                # While part of it is in use elsewhere, it goes with the last use. So it does after a refusal, which
                # portamem reports then.
                with suppress(Exception):
                    old.close(stream=native)
        elif self._buffer is not None and stream != self._stream:
            self._buffer.record_stream(native)  # the memory goes back behind the work there too
        self._stream = stream

    def _bytes(self, stream: Stream) -> bytearray:
        found = bytearray(self._size)
        self._read(found, stream)
        return found

    def _read(self, target: Any, stream: Stream) -> None:
        """Fills memory of this call's own, on every stream before it returns."""
        if self._buffer is not None and self._size:
            event = self._buffer[: self._size].copy_to(target, stream=self._native(stream))
            if event is not None:
                event.synchronize()

    def _write(self, source: Any, nbytes: int, role: str, stream: Stream) -> None:
        if nbytes > self._size:
            raise ValueError(f"Argument `{role}` is too large: it has {nbytes} bytes, and the buffer {self._size}")
        if self._buffer is not None and nbytes:
            finish(self._buffer[:nbytes].copy_from(source, stream=self._native(stream)), stream)

    def _moving_part(self) -> portamem.Buffer | None:
        """The memory as what a prefetch moves; None where it does not move."""
        assert self._buffer is not None
        capabilities = self._buffer.device.capabilities
        if not capabilities.concurrent_managed_access:
            return None
        part = self._buffer[: self._size]
        if part.kind == "managed" or (part.kind == "system" and capabilities.pageable_memory_access):
            return part
        if portamem.pointer_info(part).kind == "managed":  # of functions of the program, which do not say
            return portamem.Buffer.from_handle(part.handle, part.nbytes, owner=part)
        return None


def to_device(b: Any, stream: Stream = DEFAULT_STREAM) -> DeviceBuffer:
    """A new DeviceBuffer of the current device's resource with a copy of ``b``, bytes-like memory, which is kept alive
    until the copy has run. Raises TypeError for an object that has no memory, and ValueError for one that is no row of
    bytes."""
    stream, source = as_stream(stream), host_bytes(b, "b")
    made = DeviceBuffer(size=source.nbytes, stream=stream)
    made.copy_from_host(source, stream)
    return made
