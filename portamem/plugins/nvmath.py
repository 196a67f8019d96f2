# SPDX-License-Identifier: MIT
"""portamem as the allocator of nvmath-python, for the workspaces of its operations.

nvmath takes an allocator with each operation and has no setting for all of them. So this module has no ``use``:
``allocator(resource)`` makes the object for the operation's options::

    from portamem.plugins import nvmath

    nvmath_fft.fft(array, options={"allocator": nvmath.allocator(pool)})
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any

from portamem.plugins._plug import checked

_BACKENDS = ("cuda",)


def allocator(resource: Any = None) -> Allocator:
    """An allocator that takes memory from ``resource``, or, for None, from the current one of each device.

    One allocator serves any number of operations and threads. Raises ValueError for a resource that is closed, not of
    ``portamem.cuda`` or not stream-ordered, and TypeError for what is no resource.
    """
    return Allocator(checked(resource, "nvmath", *_BACKENDS))


class Memory:
    """Memory that nvmath holds: it goes back when nvmath lets go of the object, or by ``free()``."""

    __slots__ = ("__weakref__", "_buffer", "_is_for_any_stream", "device_ptr", "size")

    def __init__(self, buffer: Any, size: int, is_for_any_stream: bool) -> None:
        self._buffer = buffer
        self._is_for_any_stream = is_for_any_stream
        self.device_ptr: int = buffer.handle
        self.size = size

    def free(self) -> None:
        """Gives the memory back. A second call does nothing."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None and self._is_for_any_stream and not sys.is_finalizing():
            with contextlib.suppress(Exception):  # within a capture; the buffer tries again by itself
                buffer.device.synchronize()
        del buffer  # back on the stream of the allocation

    def __del__(self) -> None:
        self.free()

    def __repr__(self) -> str:
        return f"<portamem's memory for nvmath: {self.size} bytes at {self.device_ptr:#x}>"


class Allocator:
    """Has both protocols of nvmath, BaseCUDAMemoryManagerAsync and BaseCUDAMemoryManager; nvmath takes the former."""

    def __init__(self, resource: Any) -> None:
        self._resource = resource

    @property
    def resource(self) -> Any:
        """The resource that was given; None where allocations take the current one of their device."""
        return self._resource

    def memalloc_async(self, size: int, stream: Any) -> Memory:
        """Memory that is taken, and goes back, on ``stream``, which nvmath has wait for the work before it frees."""
        ours = self._backend().Stream.wrap(stream)
        return Memory(self._source(ours.device).allocate(size, stream=ours), size, is_for_any_stream=False)

    def memalloc(self, size: int) -> Memory:
        """Memory of the current device for work on any stream. Taking it waits for the default stream, and giving it
        back waits for the device."""
        device = self._backend().Device()
        stream = device.default_stream
        buffer = self._source(device).allocate(size, stream=stream)
        stream.synchronize()
        return Memory(buffer, size, is_for_any_stream=True)

    def _backend(self) -> Any:
        name = _BACKENDS[0] if self._resource is None else self._resource.backend
        return importlib.import_module(f"portamem.{name}")

    def _source(self, device: Any) -> Any:
        return self._backend().current_resource(device) if self._resource is None else self._resource

    def __repr__(self) -> str:
        taken = "the current resource" if self._resource is None else repr(self._resource)
        return f"<portamem's allocator for nvmath: {taken}>"
