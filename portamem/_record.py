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
    """Bytes as they were asked for, and allocations. Those of 0 bytes count in ``total_count`` alone."""

    current_bytes: int
    """Allocated and not freed yet; in a scope since its beginning, and so perhaps negative."""
    current_count: int
    peak_bytes: int
    peak_count: int
    total_bytes: int
    total_count: int
    failed_count: int
    """Allocations that were refused."""


@dataclass(frozen=True)
class OutstandingAllocation:
    """An allocation that is out."""

    ptr: int
    nbytes: int
    stream: int
    """``Stream.identity`` of the stream that it was allocated on."""
    stream_device: int
    time: float
    """The time of the allocation, in seconds since 1970."""
    thread: int
    """``threading.get_native_id()`` of the thread that allocated it."""
    tag: str
    site: str
    """``file:line`` of the first Python frame outside portamem, else native symbols and offsets."""

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.time, timezone.utc).isoformat(timespec="milliseconds")
        tag = f", tag {self.tag}" if self.tag else ""
        return f"{self.nbytes} bytes of {self.site}{tag}, thread {self.thread}, {when}"


class StatisticsScope:
    """The context manager that ``StatisticsAdaptor.scope()`` returns. It is read within the block and after it."""

    def __init__(self, adaptor: Any) -> None:
        self._adaptor = adaptor
        self._scope = 0
        self._counts: MemoryCounts | None = None

    @property
    def counts(self) -> MemoryCounts:
        """Counts what has gone through the adaptor in the scope, up to now or to its end. Raises ValueError before it
        began."""
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
        """Ends the scope, whose counts stay as they are then."""
        self._counts = self.counts
        scope, self._scope = self._scope, 0
        self._adaptor._end_scope(scope)
