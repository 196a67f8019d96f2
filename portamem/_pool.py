# SPDX-License-Identifier: MIT
"""Classes of the answers that pools give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PoolStats:
    """A pool's figures at about one moment: threads that allocate meanwhile are not stopped."""

    used: int
    """The bytes that are out, as they were asked for."""
    reserved: int
    """The bytes that the pool holds of its upstream."""
    peak: int
    """The most bytes that were reserved at once, since ``reset_peak()``."""
    largest_free: int
    """The bytes of the largest free block."""
    free_blocks: int
    """The number of free blocks of all sizes."""
    fragmentation: float
    """The share of the free bytes that is not in the largest free block; 0 where nothing is free."""
    hits: int
    """The number of allocations that the pool served from memory that it had."""
    misses: int
    """The number of allocations for which the pool asked the upstream."""
    steals: int
    """The number of times that a stream took over memory that was freed on another stream, behind an event."""
    releases: int
    """The number of chunks that went back to the upstream."""

    def __repr__(self) -> str:
        """Names all figures, and rounds the fragmentation to three digits."""
        figures = {**vars(self), "fragmentation": round(self.fragmentation, 3)}
        return f"PoolStats({', '.join(f'{name}={value}' for name, value in figures.items())})"

    def _repr_html_(self) -> str:
        from portamem import _html

        return _html.pool_stats(self)


class PoolSnapshot(dict[str, Any]):
    """The dict of plain data that ``PoolMemoryResource.snapshot()`` returns. Notebooks show it as a table."""

    def _repr_html_(self) -> str:
        from portamem import _html

        return _html.pool_snapshot(self)
