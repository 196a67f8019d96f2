# SPDX-License-Identifier: MIT
"""Adaptors: they watch or bound what another resource gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsIndex

import portamem
from portamem.compat.rmm._counts import Statistics, statistics_of
from portamem.compat.rmm._sizes import nbytes_of
from portamem.compat.rmm.pylibrmm import logger
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource, WatchingAdaptor, as_resource
from portamem.compat.rmm.pylibrmm.memory_resource._callback import require_callable, translated

if TYPE_CHECKING:
    from portamem._record import StatisticsScope


class LimitingResourceAdaptor(WatchingAdaptor):
    """Never has more than a number of bytes out, and raises MemoryError for what would be more."""

    __slots__ = ("_limiting",)

    def __init__(self, upstream_mr: DeviceMemoryResource, allocation_limit: SupportsIndex) -> None:
        """Makes an adaptor over ``upstream_mr`` that has at most ``allocation_limit`` bytes out."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        self._limiting = portamem.LimitingAdaptor(upstream.resource, nbytes_of(allocation_limit))
        super().__init__(upstream, self._limiting)

    def get_allocated_bytes(self) -> int:
        """The bytes that are out, as they were asked for."""
        return self._limiting.allocated

    def get_allocation_limit(self) -> int:
        """The most bytes that may be out."""
        return self._limiting.limit


class StatisticsResourceAdaptor(WatchingAdaptor):
    """Counts what goes through it, on a stack of counters: the topmost ones are shown. All threads share the stack."""

    __slots__ = ("_lock", "_scopes", "_statistics")

    def __init__(self, upstream_mr: DeviceMemoryResource) -> None:
        """Makes an adaptor over ``upstream_mr`` with one pair of counters, at 0."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        self._statistics = portamem.StatisticsAdaptor(upstream.resource)
        self._scopes: list[StatisticsScope] = []
        self._lock = threading.RLock()  # a collection of garbage may come back here
        super().__init__(upstream, self._statistics)

    @property
    def allocation_counts(self) -> Statistics:
        """The counts of the topmost counters."""
        with self._lock:
            return self._top()

    def push_counters(self) -> Statistics:
        """Puts new counters, at 0, on the stack, and answers what the topmost ones had counted until then."""
        with self._lock:
            before = self._top()
            scope = self._statistics.scope()
            scope.__enter__()
            self._scopes.append(scope)
            return before

    def pop_counters(self) -> Statistics:
        """Takes the topmost counters off the stack, and answers what they have counted. Those below have counted it
        too. Raises IndexError for the last ones."""
        with self._lock:
            if not self._scopes:
                raise IndexError("cannot pop the last counter pair")
            scope = self._scopes.pop()
            scope.__exit__(None, None, None)
            return statistics_of(scope.counts)

    def _top(self) -> Statistics:
        return statistics_of((self._scopes[-1] if self._scopes else self._statistics).counts)


class TrackingResourceAdaptor(WatchingAdaptor):
    """Knows each allocation that is out. What is out when the adaptor ends is printed to stderr."""

    __slots__ = ("_captures", "_tracking")

    def __init__(self, upstream_mr: DeviceMemoryResource, capture_stacks: bool = False) -> None:
        """Makes an adaptor over ``upstream_mr``. ``capture_stacks``: the text tells for each allocation the line of
        Python that made it, or else native symbols."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        self._tracking = portamem.TrackingAdaptor(upstream.resource)
        self._captures = bool(capture_stacks)
        super().__init__(upstream, self._tracking)

    def get_allocated_bytes(self) -> int:
        """The bytes that are out, as they were asked for."""
        return self._tracking.live_bytes

    def get_outstanding_allocations_str(self) -> str:
        """A line with address and bytes for each allocation that is out, the lowest address first; "" where none is."""
        found = sorted(self._tracking.outstanding(), key=lambda each: each.ptr)
        return "".join(
            f"{each.ptr:#x}: {each.nbytes} B" + (f" : {each.site}" if self._captures else "") + "\n" for each in found
        )

    def log_outstanding_allocations(self) -> None:
        """Writes that text to RMM's logger, at the level debug."""
        logger.log(logger.level_enum.debug, f"Outstanding allocations:\n{self.get_outstanding_allocations_str()}")


class FailureCallbackResourceAdaptor(WatchingAdaptor):
    """Where the upstream has no memory, a function of the program answers whether to try again, as often as it says
    True. It may free and allocate; no lock is held."""

    __slots__ = ()

    def __init__(self, upstream_mr: DeviceMemoryResource, callback: Callable[[int], bool]) -> None:
        """Makes an adaptor over ``upstream_mr`` that calls ``callback(nbytes)``. After False the upstream's MemoryError
        reaches the caller. What the callback raises does too, as ``CallbackMemoryResource`` says. Raises TypeError for
        a callback that is no function."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        require_callable(callback, "callback")

        def tries_again(nbytes: int) -> bool:
            return bool(translated(callback, nbytes))

        super().__init__(upstream, portamem.FailureCallbackAdaptor(upstream.resource, tries_again))


class PrefetchResourceAdaptor(WatchingAdaptor):
    """Prefetches what it allocates to the device of the allocation's stream. Memory that does not move is given as it
    is."""

    __slots__ = ()

    def __init__(self, upstream_mr: DeviceMemoryResource) -> None:
        """Makes an adaptor over ``upstream_mr``."""
        upstream = as_resource(upstream_mr, "upstream_mr")
        below = upstream.resource
        super().__init__(upstream, portamem.PrefetchAdaptor(below) if _moves(below) else below)


def _moves(resource: portamem.MemoryResource) -> bool:
    """Tells whether a prefetch moves the memory of a resource."""
    found = resource.device.capabilities
    can_move = resource.kind == "managed" or (resource.kind == "system" and found.pageable_memory_access)
    return bool(can_move and found.concurrent_managed_access)
