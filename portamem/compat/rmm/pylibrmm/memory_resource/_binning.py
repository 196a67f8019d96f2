# SPDX-License-Identifier: MIT
"""A resource that picks another one by the size of each allocation."""

from __future__ import annotations

import bisect
import threading
from typing import SupportsIndex

import portamem
from portamem.compat.rmm._sizes import align_up, nbytes_of
from portamem.compat.rmm.pylibrmm.memory_resource._base import (
    DeviceMemoryResource,
    UpstreamResourceAdaptor,
    as_resource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._pools import FixedSizeMemoryResource


class BinningMemoryResource(UpstreamResourceAdaptor):
    """Gives memory of the smallest bin that is large enough, and of the upstream what is larger than all bins. A bin is
    a resource for allocations of up to its size. Each allocation and each free calls Python."""

    __slots__ = ("_bin_mrs", "_bins")

    def __init__(
        self,
        upstream_mr: DeviceMemoryResource,
        min_size_exponent: SupportsIndex = -1,
        max_size_exponent: SupportsIndex = -1,
    ) -> None:
        """Makes a resource over ``upstream_mr``. With both exponents it has a bin of fixed-size blocks for each power
        of two from ``2**min_size_exponent`` to ``2**max_size_exponent`` bytes; otherwise it has no bin yet."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        self._bins = _Bins(upstream.resource)
        self._bin_mrs: list[DeviceMemoryResource] = []
        resource = portamem.CallbackMemoryResource(
            self._bins.allocate,
            self._bins.deallocate,
            device=upstream.resource.device,
            kind=upstream.resource.kind,
            host_accessible=upstream.resource.is_host_accessible,
            stream_ordered=True,
        )
        super().__init__(upstream, resource)
        lowest, highest = int(min_size_exponent), int(max_size_exponent)
        if lowest != -1 and highest != -1:
            for exponent in range(lowest, highest + 1):
                self.add_bin(1 << exponent)

    def add_bin(self, allocation_size: SupportsIndex, bin_resource: DeviceMemoryResource | None = None) -> None:
        """Adds a bin for allocations of up to ``allocation_size`` bytes, rounded up to a multiple of 256.

        ``bin_resource`` gives its memory, and takes the place of the resource of a bin of that size. With None the bin
        has fixed-size blocks of the upstream, and a bin that is there already stays. Memory that is out goes back to
        the resource that gave it.
        """
        size = align_up(nbytes_of(allocation_size))
        if bin_resource is not None:
            given = as_resource(bin_resource, "bin_resource")
            self._bins.put(size, given.resource)
            self._bin_mrs.append(given)
        elif not self._bins.has(size):
            self._bins.put(size, FixedSizeMemoryResource(self._upstream, size).resource)

    @property
    def bin_mrs(self) -> list[DeviceMemoryResource]:
        """The resources that ``add_bin`` was given, the oldest first."""
        return self._bin_mrs


class _Bins:
    """The bins and the two functions over them. It knows nothing of the resource, which would else live for good. No
    lock is held while a bin allocates or frees."""

    def __init__(self, upstream: portamem.MemoryResource) -> None:
        self._upstream = upstream
        self._bins: tuple[list[int], list[portamem.MemoryResource]] = [], []  # sizes in order, and their resources
        self._givers: dict[int, portamem.MemoryResource] = {}  # by the address of memory that is out
        self._lock = threading.RLock()  # a collection of garbage may come back here

    def has(self, size: int) -> bool:
        return size in self._bins[0]

    def put(self, size: int, resource: portamem.MemoryResource) -> None:
        with self._lock:
            sizes, resources = list(self._bins[0]), list(self._bins[1])
            place = bisect.bisect_left(sizes, size)
            replaced = place < len(sizes) and sizes[place] == size
            sizes[place : place + replaced] = [size]
            resources[place : place + replaced] = [resource]
            before, self._bins = self._bins, (sizes, resources)
        del before  # the last reference to a replaced resource may free memory: not under the lock

    def allocate(self, nbytes: int, stream: portamem.Stream) -> int:
        sizes, resources = self._bins
        place = bisect.bisect_left(sizes, nbytes)
        giver = resources[place] if place < len(sizes) else self._upstream
        address = giver.allocate(nbytes, stream=stream).release()
        self._givers[address] = giver
        return address

    def deallocate(self, ptr: int, nbytes: int, stream: portamem.Stream) -> None:
        # The address is taken out first: once it is free, another thread may get it at once.
        giver = self._givers.pop(ptr)
        try:
            giver.deallocate(ptr, nbytes, stream=stream)
        except BaseException:
            self._givers[ptr] = giver  # the memory is still out
            raise
