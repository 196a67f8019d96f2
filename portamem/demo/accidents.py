# SPDX-License-Identifier: MIT
"""Accidents that portamem refuses. Each function has one, on purpose, and returns the message that it got."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

import numpy as np

import portamem as pm

NBYTES = 1 << 20


class NotRefusedError(Exception):
    """An accident went through."""


def refused(expected: type[Exception] | tuple[type[Exception], ...], accident: Callable[[], object]) -> str:
    """The message of the exception that refuses an accident."""
    try:
        accident()
    except expected as error:
        return f"{type(error).__name__}: {error}"
    raise NotRefusedError("this was not refused")


def copy_too_long() -> str:
    """The source is one byte longer than the target."""
    with pm.DeviceMemoryResource() as resource, resource.allocate(NBYTES) as target:
        return refused(ValueError, lambda: pm.copy(target, bytes(NBYTES + 1)))


def close_under_view() -> str:
    """The memory is closed while an array over it is alive. It stays usable, and closes when the array has gone."""
    with pm.DeviceMemoryResource() as resource:
        buffer = resource.allocate(NBYTES)
        view = buffer.view("float32")
        message = refused(BufferError, buffer.close)
        view.fill(0)
        expect(not view.to_numpy().any(), "the buffer is not usable any more")
        view.close()
        buffer.close()
        return message


def double_free() -> str:
    """The same memory is given back twice."""
    with pm.DeviceMemoryResource() as resource:
        address = resource.allocate(NBYTES).release()  # from here on ours to give back
        resource.deallocate(address, NBYTES)
        return refused((ValueError, pm.Error), lambda: resource.deallocate(address, NBYTES))


def out_of_memory() -> str:
    """More is asked for than the device has. What fits is had afterwards as before."""
    with pm.DeviceMemoryResource() as resource:
        total = pm.Device().memory_info().total
        message = refused(pm.OutOfMemoryError, lambda: resource.allocate(total + 1))
        with resource.allocate(NBYTES) as buffer:
            came_back = bytearray(NBYTES)
            buffer.fill(7)
            pm.copy(came_back, buffer)
            expect(came_back == b"\x07" * NBYTES, "memory is not usable after the refusal")
        return message


def reuse_across_streams() -> str:
    """Memory is freed on one stream, which a latch holds, and wanted on another.

    The free takes effect when its stream gets there. Until then the other stream gets different memory, or the same
    in an order that keeps the first stream's last read before the second's write.
    """
    sent = np.random.default_rng(seed=3).integers(0, 256, NBYTES, np.uint8)
    with (
        pm.AsyncMemoryResource() as pool,
        pm.PinnedMemoryResource() as pinned,
        pinned.allocate(NBYTES) as received,
        pm.Stream() as one,
        pm.Stream() as other,
    ):
        first = pool.allocate(NBYTES, stream=one)
        first.copy_from(sent)
        with Latch(one):
            pm.copy(received, first, stream=one)  # the last read, held by the latch
            freed = first.handle
            first.close()
            second = pool.allocate(NBYTES, stream=other)
            second.fill(0xFF, stream=other)
            apart = abs(second.handle - freed) >= NBYTES
            if apart:
                other.synchronize()  # nothing holds this stream
            expect(not one.query(), "the latch held nothing")
        one.synchronize()
        second.close()
        expect(bytes(memoryview(received)) == sent.tobytes(), "the memory was written while its stream still read it")
        return "other memory was given, and the data is intact" if apart else "the order was kept, the data is intact"


class Latch:
    """Holds a stream, from this point of its order on, until the ``with`` block ends."""

    def __init__(self, stream: pm.Stream) -> None:
        self._opened = threading.Event()
        stream.launch_host_func(lambda: self._opened.wait(timeout=60))

    def __enter__(self) -> Latch:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._opened.set()


def expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise NotRefusedError(otherwise)


ACCIDENTS: dict[str, Callable[[], str]] = {
    "a copy too long": copy_too_long,
    "close under a view": close_under_view,
    "double free": double_free,
    "out of memory, then success": out_of_memory,
    "freed on one stream, wanted on another": reuse_across_streams,
}
