# SPDX-License-Identifier: MIT
"""Classes of the answers that the adaptors give which watch memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class MemoryCounts:
    """Numbers of bytes, as they were asked for, and of allocations. An allocation of 0 bytes counts only in
    ``total_count``."""

    current_bytes: int
    """The bytes that are allocated and not freed yet. A scope counts from its beginning, so this may be negative."""
    current_count: int
    """The number of those allocations."""
    peak_bytes: int
    """The most that ``current_bytes`` has been."""
    peak_count: int
    """The most that ``current_count`` has been."""
    total_bytes: int
    """The bytes of all allocations, also of those that were freed."""
    total_count: int
    """The number of all allocations, also of those that were freed."""
    failed_count: int
    """The number of allocations that were refused."""


@dataclass(frozen=True)
class OutstandingAllocation:
    """An allocation that is out."""

    ptr: int
    """The address of its first byte."""
    nbytes: int
    """The bytes that were asked for."""
    stream: int
    """``Stream.identity`` of the stream that it was allocated on."""
    stream_device: int
    """The ordinal of that stream's device."""
    time: float
    """The time of the allocation, in seconds since 1970."""
    thread: int
    """``threading.get_native_id()`` of the thread that allocated it."""
    tag: str
    """The thread's tag at the allocation; "" where it had none."""
    site: str
    """``file:line`` of the first Python frame outside portamem, else native symbols and offsets."""

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.time, timezone.utc).isoformat(timespec="milliseconds")
        tag = f", tag {self.tag}" if self.tag else ""
        return f"{self.nbytes} bytes of {self.site}{tag}, thread {self.thread}, {when}"


class StatisticsScope:
    """The context manager that ``StatisticsAdaptor.scope()`` returns. A program reads ``counts`` within the block and
    after it."""

    def __init__(self, adaptor: Any) -> None:
        self._adaptor = adaptor
        self._scope = 0
        self._counts: MemoryCounts | None = None

    @property
    def counts(self) -> MemoryCounts:
        """The counts of what went through the adaptor since the scope began, up to now or to its end. Raises ValueError
        before it began."""
        if self._scope:
            found: MemoryCounts = self._adaptor._scope_counts(self._scope)
            return found
        if self._counts is None:
            raise ValueError("the scope of statistics was never entered: with adaptor.scope() as scope")
        return self._counts

    def __enter__(self) -> Self:
        """Begins the scope, whose counts start at 0."""
        if self._scope:
            raise RuntimeError("this scope is open already: call scope() again for another")
        self._scope = self._adaptor._begin_scope()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Ends the scope; ``counts`` stays as it is then."""
        self._counts = self.counts
        scope, self._scope = self._scope, 0
        self._adaptor._end_scope(scope)
