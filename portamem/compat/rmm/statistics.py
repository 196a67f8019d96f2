# SPDX-License-Identifier: MIT
"""RMM's statistics: counters of the current device's resource, and a profiler over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import portamem
from portamem.compat.rmm import mr
from portamem.compat.rmm._counters import enable_statistics, get_statistics, pop_statistics, push_statistics
from portamem.compat.rmm._counts import Statistics
from portamem.compat.rmm._profiler import (
    ProfilerContext,
    ProfilerRecords,
    _get_descriptive_name_of_object,
    default_profiler_records,
    profiler,
)
from portamem.compat.rmm.pylibrmm.memory_resource._per_device import uncover

__all__ = [
    "ProfilerContext",
    "ProfilerRecords",
    "Statistics",
    "_get_descriptive_name_of_object",
    "default_profiler_records",
    "enable_statistics",
    "get_statistics",
    "pop_statistics",
    "profiler",
    "push_statistics",
    "statistics",
]


@contextmanager
def statistics() -> Iterator[None]:
    """Counts what a ``with`` block allocates on the current device. ``get_statistics`` tells it.

    Where the current resource is a StatisticsResourceAdaptor, the block has counters of its own on its stack. Otherwise
    one is put over the current resource for the block, and that resource is set back at its end.

    Raises ValueError within ``portamem.using`` of a resource that does not count, and where the block has left another
    resource current than it began with. An exception that ends the block is never hidden.
    """
    device = portamem.Device().ordinal
    is_new = push_statistics() is None
    if is_new:
        enable_statistics()
    counting = mr.get_per_device_resource(device)
    assert isinstance(counting, mr.StatisticsResourceAdaptor)

    def end() -> None:
        if is_new:
            uncover(device, counting)
        else:
            counting.pop_counters()

    try:
        yield
    except BaseException:
        if counting is mr.get_per_device_resource(device):
            end()
        raise
    if counting is not mr.get_per_device_resource(device):
        raise ValueError("the current resource was changed in a block of statistics(): set it back before its end")
    end()
