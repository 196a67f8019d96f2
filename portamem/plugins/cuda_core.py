# SPDX-License-Identifier: MIT
"""Memory resources of portamem for cuda.core, and of cuda.core for portamem, without a copy.

cuda.core takes a resource with each call and has no setting for all of them. So this module has no ``use``::

    from portamem.plugins import cuda_core

    mr = cuda_core.memory_resource(pool)  # a cuda.core.MemoryResource
    buffer = mr.allocate(1000, stream=stream)  # a cuda.core.Buffer, the pool's memory
    resource = cuda_core.from_cuda_core(cuda.core.DeviceMemoryResource(0))  # a resource of portamem
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from portamem._types import Device
from portamem.plugins._plug import checked, library

_LEGACY = 1  # the legacy default stream, as CUDA numbers it
_NO_DEVICE = ("host",)  # backends whose memory is no CUDA device's
# The classes whose frees are in a stream's order. What others free, as VirtualMemoryResource, goes at once.
_POOLS = ("DeviceMemoryResource", "PinnedMemoryResource", "ManagedMemoryResource", "GraphMemoryResource")


def memory_resource(resource: Any) -> Any:
    """A ``cuda.core.MemoryResource`` that takes its memory from ``resource``.

    Each ``cuda.core.Buffer`` keeps the resource alive. Its memory goes back on the stream that cuda.core names, behind
    the work on the stream of its allocation. Memory of ``portamem.host`` is no device's: cuda.core sees the host's, or
    memory that it reaches from nowhere. Release 1.2.0 of cuda.core, and no other, wants a current CUDA context for it,
    or a stream of cuda.core that is not a default one.

    Raises TypeError for what is no resource, and ValueError for one that is closed, of ``portamem.hip`` or not
    stream-ordered.
    """
    if resource is None:
        raise TypeError("cuda.core asks a memory resource what its memory is, so it takes one resource: name it")
    given = checked(resource, "cuda.core", "cuda", "host")
    core = _core()
    return _class_over(core)(core, given)


def from_cuda_core(mr: Any, *, device: Any = None) -> Any:
    """A resource of portamem whose memory comes from a ``cuda.core.MemoryResource``, which it keeps alive.

    ``device`` is a Device of portamem. None is the device that ``mr`` names, else the calling thread's current one, of
    ``portamem.cuda``; memory that no device reaches needs it. What ``memory_resource`` made comes back as the resource
    that it was made of.

    Raises TypeError for what is no such resource, and ValueError where the device is missing or cannot reach the
    memory.
    """
    core = _core()
    if isinstance(mr, _Ours):
        return mr.resource
    if not isinstance(mr, core.MemoryResource):
        raise TypeError(f"from_cuda_core takes a cuda.core.MemoryResource, not a {type(mr).__name__}")
    on_device, on_host = bool(mr.is_device_accessible), bool(mr.is_host_accessible)
    is_ordered = on_device and isinstance(mr, tuple(getattr(core, name) for name in _POOLS if hasattr(core, name)))
    chosen = _device_of(mr, device, on_device)
    out: dict[int, Any] = {}

    def theirs(stream: Any) -> Any:
        return core.Stream.from_handle(stream.handle or _LEGACY) if on_device else None

    def allocate(nbytes: int, stream: Any) -> int:
        try:
            buffer = mr.allocate(nbytes, stream=theirs(stream))
        except Exception as error:
            if isinstance(error, MemoryError) or "CUDA_ERROR_OUT_OF_MEMORY" in str(error):
                return 0  # portamem raises its own error, and tries again where a pool has something to give back
            raise
        address = int(buffer.handle)
        out[address] = buffer
        return address

    def deallocate(address: int, nbytes: int, stream: Any) -> None:
        out.pop(address).close(theirs(stream))

    if getattr(mr, "is_managed", False):
        kind = "managed"
    elif on_device:
        kind = "pinned" if on_host else "async" if is_ordered else "device"
    else:
        kind = "system"
    backend = importlib.import_module(f"portamem.{chosen.backend}")
    return backend.CallbackMemoryResource(
        allocate, deallocate, device=chosen, kind=kind, host_accessible=on_host, stream_ordered=is_ordered
    )


def _core() -> Any:
    return library("cuda.core", "cuda-core", "0.5")


def _device_of(mr: Any, device: Any, on_device: bool) -> Any:
    if device is None:
        if not on_device:
            raise ValueError("no device reaches this memory: name the device that the resource is for, device=...")
        cuda = importlib.import_module("portamem.cuda")
        try:
            ordinal = int(mr.device_id)
        except RuntimeError:  # page-locked memory of cuda.core is of no device
            ordinal = -1
        return cuda.Device(None if ordinal < 0 else ordinal)
    if not isinstance(device, Device):
        raise TypeError(f"device is a Device of portamem.cuda or portamem.host, not a {type(device).__name__}")
    chosen: Any = device
    if chosen.backend not in ("cuda", "host") or (on_device and chosen.backend in _NO_DEVICE):
        raise ValueError(f"memory of cuda.core is CUDA's, and {chosen!r} is a device of portamem.{chosen.backend}")
    return chosen


@functools.cache
def _class_over(core: Any) -> Any:
    return type("PortamemMemoryResource", (_Ours, core.MemoryResource), {"__doc__": _Ours.__doc__})


class _Ours:
    """A memory resource of cuda.core over one of portamem."""

    def __init__(self, core: Any, resource: Any) -> None:
        self._core = core
        self._resource = resource
        self._backend = importlib.import_module(f"portamem.{resource.backend}")
        self._buffers: dict[int, Any] = {}
        self._latest: tuple[Any, Any] | None = None  # cuda.core's stream or GraphBuilder, and portamem's of its handle

    @property
    def resource(self) -> Any:
        """The resource of portamem."""
        return self._resource

    # Older releases of cuda.core hand the stream over by position, or leave it out.
    def allocate(self, size: int, stream: Any = None) -> Any:
        """A ``cuda.core.Buffer``. Without a stream it is of the device's legacy default stream."""
        ours = self._ours(stream)
        if ours is None:
            ours = self._resource.device.default_stream
        buffer = self._resource.allocate(size, stream=ours)
        address = buffer.handle
        if address:
            self._buffers[address] = buffer
        try:
            return self._wrapped(address, size, stream, ours)
        except BaseException:
            self._buffers.pop(address, None)
            raise

    def deallocate(self, ptr: Any, size: int, stream: Any = None) -> None:
        """Gives memory back. Raises ValueError for an address that is not out."""
        address = int(ptr)
        if not address:
            return
        buffer = self._buffers.pop(address, None)
        if buffer is None:
            raise ValueError(f"no memory of {self!r} is out at {address:#x} ({size} bytes): was it freed twice?")
        buffer.close(stream=self._ours(stream))

    @property
    def is_device_accessible(self) -> bool:
        """True where kernels of a CUDA device may use the memory."""
        return self._is_cudas and bool(self._resource.is_device_accessible)

    @property
    def is_host_accessible(self) -> bool:
        """True where code on the host may use the memory."""
        return bool(self._resource.is_host_accessible)

    @property
    def is_managed(self) -> bool:
        """True for managed memory."""
        return self._is_cudas and bool(self._resource.kind == "managed")

    @property
    def device_id(self) -> int:
        """The CUDA device that owns the memory; -1 for memory of the host."""
        return int(self._resource.device_id) if self._is_cudas else -1

    @property
    def _is_cudas(self) -> bool:
        return self._resource.backend not in _NO_DEVICE

    def _ours(self, stream: Any) -> Any:
        """The stream as portamem's. For the host backend, a stream of cuda.core means nothing."""
        if stream is None or isinstance(stream, self._backend.Stream):
            return stream
        if not self._is_cudas:
            return None
        latest = self._latest
        if latest is None or latest[0] is not stream:
            handled = stream if hasattr(stream, "__cuda_stream__") else getattr(stream, "stream", stream)
            latest = self._latest = (stream, self._backend.Stream.wrap(handled))
        return latest[1]

    def _wrapped(self, address: int, size: int, stream: Any, ours: Any) -> Any:
        from_handle = self._core.Buffer.from_handle
        if stream is None or isinstance(stream, self._backend.Stream):
            if not self.is_device_accessible:  # portamem.host's streams are none of CUDA's
                return from_handle(address, size, mr=self)
            stream = self._core.Stream.from_handle(ours.handle or _LEGACY)
        try:
            return from_handle(address, size, mr=self, stream=stream)
        except TypeError:  # an older release, whose buffers go back without a stream
            return from_handle(address, size, mr=self)

    def __repr__(self) -> str:
        return f"<portamem's memory resource for cuda.core: {self._resource!r}>"
