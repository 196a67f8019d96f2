# SPDX-License-Identifier: MIT
"""The base of all memory resources of RMM: a resource of portamem below, and addresses above."""

from __future__ import annotations

import threading
import weakref
from typing import Any, SupportsIndex

import portamem
from portamem.compat.rmm._sizes import nbytes_of
from portamem.compat.rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from portamem.compat.rmm.pylibrmm.utils import as_stream

# The living resources of this module, by the id() of portamem's resource below, which each of them keeps alive.
_living: weakref.WeakValueDictionary[int, DeviceMemoryResource] = weakref.WeakValueDictionary()
_living_lock = threading.RLock()  # a collection of garbage may come back here


class AllocationError(portamem.Error, MemoryError):
    """The runtime refused an allocation for another reason than that there is no memory. Code written for RMM expects a
    MemoryError for every allocation that fails."""


class DeviceMemoryResource:
    """Where memory comes from, by address. Each one stands on a resource of portamem, ``resource``, which counts,
    checks and frees; ``DeviceMemoryResource(r)`` makes any resource of portamem one of RMM.

    Memory goes back to the resource that gave it, and keeps that resource alive until then.
    """

    __slots__ = ("__weakref__", "_device", "_resource")

    def __init__(self, resource: portamem.MemoryResource) -> None:
        """Makes a resource over one of portamem, which it keeps alive. Raises TypeError for anything else."""
        if not isinstance(resource, portamem.MemoryResource):
            raise TypeError(f"a memory resource of portamem was expected, not a {type(resource).__name__}")
        self._resource = resource
        self._device = resource.device
        with _living_lock:
            _living.setdefault(id(resource), self)

    @property
    def resource(self) -> portamem.MemoryResource:
        """portamem's resource below, which ``portamem.using`` and all else of portamem takes."""
        return self._resource

    def allocate(self, nbytes: SupportsIndex, stream: Stream = DEFAULT_STREAM) -> int:
        """The address of ``nbytes`` bytes, which the caller hands to ``deallocate``; 0 for 0 bytes. They may be used in
        the order of ``stream``.

        Raises MemoryError where there is no memory, or the runtime refuses; ValueError for a size below 0; and
        TypeError for a stream that is none.
        """
        return self._take(nbytes_of(nbytes), as_stream(stream)).release()

    def deallocate(self, ptr: int, nbytes: SupportsIndex, stream: Stream = DEFAULT_STREAM) -> None:
        """Takes back the ``nbytes`` bytes that ``allocate`` gave, behind the work that ``stream`` holds now. Work on
        other streams must have run, or be ordered before.

        Raises ValueError, or Error where only the runtime notices, for memory that is not out; TypeError for a stream
        that is none.
        """
        native = as_stream(stream).on(self._device)
        self._resource.deallocate(ptr, nbytes_of(nbytes), stream=native)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self._resource!r}>"

    def _take(self, nbytes: int, stream: Stream) -> portamem.Buffer:
        """Allocates as a Buffer of portamem, which owns the memory."""
        largest = self._largest()
        if largest is not None and nbytes > largest:
            raise portamem.OutOfMemoryError(
                f"blocks of this resource hold {largest} bytes, not {nbytes}: take larger blocks, or a "
                "BinningMemoryResource over a resource for what is larger",
                asked=nbytes,
                call="allocate",
                backend=self._resource.backend,
            )
        native = stream.on(self._device)
        try:
            return self._resource.allocate(nbytes, stream=native)
        except portamem.Error as error:
            if isinstance(error, MemoryError):
                raise
            raise AllocationError(
                str(error), code=error.code, name=error.name, call=error.call, backend=error.backend
            ) from error

    def _largest(self) -> int | None:
        """The most bytes of an allocation; None where the resource sets no bound of its own."""
        return None


class UpstreamResourceAdaptor(DeviceMemoryResource):
    """A resource over another one, its upstream, which it keeps alive."""

    __slots__ = ("_upstream",)

    def __init__(self, upstream_mr: DeviceMemoryResource, resource: portamem.MemoryResource) -> None:
        """Makes a resource over ``upstream_mr`` of one of portamem, which takes its memory from there."""
        super().__init__(resource)
        self._upstream = upstream_mr

    @property
    def upstream_mr(self) -> DeviceMemoryResource:
        """The resource below."""
        return self._upstream

    def get_upstream(self) -> DeviceMemoryResource:
        """The resource below."""
        return self._upstream


class WatchingAdaptor(UpstreamResourceAdaptor):
    """An adaptor that hands each allocation to its upstream as it is, and so has the upstream's bound."""

    __slots__ = ()

    def _largest(self) -> int | None:
        return self._upstream._largest()


def as_resource(obj: Any, role: str = "mr") -> DeviceMemoryResource:
    """A resource of this module as it is, and one of portamem as one of this module. Raises TypeError for None and for
    all else; ``role`` is the parameter's name."""
    if isinstance(obj, DeviceMemoryResource):
        return obj
    if isinstance(obj, portamem.MemoryResource):
        return resource_over(obj)
    if obj is None:
        raise TypeError(f"Argument `{role}` must not be None: it is a memory resource")
    raise TypeError(f"Argument `{role}` is a memory resource, not a {type(obj).__name__}")


def resource_over(resource: portamem.MemoryResource) -> DeviceMemoryResource:
    """The living resource of this module over one of portamem, or else a new one."""
    with _living_lock:
        found = _living.get(id(resource))
    return DeviceMemoryResource(resource) if found is None else found
