# SPDX-License-Identifier: MIT
"""The counters of the current device's resource."""

from __future__ import annotations

import portamem
from portamem.compat.rmm import mr
from portamem.compat.rmm._counts import Statistics
from portamem.compat.rmm.pylibrmm.memory_resource._per_device import cover


def enable_statistics() -> None:
    """Puts a StatisticsResourceAdaptor over the current device's resource. Does nothing where one is there already.
    Raises ValueError within ``portamem.using``."""
    if counting_resource() is None:
        cover(portamem.Device().ordinal, mr.StatisticsResourceAdaptor)


def get_statistics() -> Statistics | None:
    """Answers what the topmost counters of the current device have counted; None where the current resource is no
    StatisticsResourceAdaptor."""
    found = counting_resource()
    return None if found is None else found.allocation_counts


def push_statistics() -> Statistics | None:
    """Puts new counters on the stack of the current resource, and answers what the topmost ones had counted until then.
    None, and nothing is done, where that resource is no StatisticsResourceAdaptor."""
    found = counting_resource()
    return None if found is None else found.push_counters()


def pop_statistics() -> Statistics | None:
    """Takes the topmost counters off the stack of the current resource, and answers what they have counted. None, and
    nothing is done, where that resource is no StatisticsResourceAdaptor. Raises IndexError for the last counters."""
    found = counting_resource()
    return None if found is None else found.pop_counters()


def counting_resource() -> mr.StatisticsResourceAdaptor | None:
    """The current device's resource, where that is a StatisticsResourceAdaptor, or else None."""
    found = mr.get_current_device_resource()
    return found if isinstance(found, mr.StatisticsResourceAdaptor) else None
