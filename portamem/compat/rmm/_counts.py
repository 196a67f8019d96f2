# SPDX-License-Identifier: MIT
"""Counts of allocations, as RMM's statistics answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portamem._record import MemoryCounts


@dataclass
class Statistics:
    """Bytes as they were asked for, and allocations, since the counters began."""

    current_bytes: int
    """Allocated and not freed yet. Negative where more was freed than allocated since the counters began."""
    current_count: int
    peak_bytes: int
    peak_count: int
    total_bytes: int
    total_count: int


def statistics_of(counts: MemoryCounts) -> Statistics:
    """portamem's counts in RMM's class."""
    return Statistics(
        current_bytes=counts.current_bytes,
        current_count=counts.current_count,
        peak_bytes=counts.peak_bytes,
        peak_count=counts.peak_count,
        total_bytes=counts.total_bytes,
        total_count=counts.total_count,
    )
