# SPDX-License-Identifier: MIT
"""The kinds of resources that stand over others: pools and the like, callbacks, and adaptors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from portamem.conformance.kit.kinds import KINDS, Kind, register

ADAPTORS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "LimitingAdaptor": lambda pm, upstream: pm.LimitingAdaptor(upstream, 1 << 62),
    "StatisticsAdaptor": lambda pm, upstream: pm.StatisticsAdaptor(upstream),
    "TrackingAdaptor": lambda pm, upstream: pm.TrackingAdaptor(upstream),
    "LoggingAdaptor": lambda pm, upstream: _log(pm, upstream),
    "FailureCallbackAdaptor": lambda pm, upstream: pm.FailureCallbackAdaptor(upstream, lambda *told: False),
    "FallbackAdaptor": lambda pm, upstream: pm.FallbackAdaptor(upstream, pm.LimitingAdaptor(upstream, 0)),
    "PrefetchAdaptor": lambda pm, upstream: pm.PrefetchAdaptor(upstream),
}
"""Makes each adaptor over a resource, so that it refuses nothing and says nothing."""


def _log(pm: ModuleType, upstream: Any) -> Any:
    """Makes a logging adaptor over a file that is already unlinked: the file goes when it is closed."""
    number, path = tempfile.mkstemp(prefix="portamem-", suffix=".jsonl")
    os.close(number)
    try:
        return pm.LoggingAdaptor(upstream, path)
    finally:
        os.unlink(path)


def over(upstream: Kind, cls: str, make: Callable[[ModuleType, Any], Any], **differences: Any) -> Kind:
    """The kind of a resource of a class over one of another kind; what it says of its memory is what that one says."""
    short = cls.removesuffix("MemoryResource").removesuffix("Adaptor").lower()
    return replace(
        upstream,
        name=f"{short}-{upstream.name}",
        make=lambda pm, device: make(pm, upstream.make(pm, device)),
        cls=cls,
        upstream=upstream,
        over=make,
        **differences,
    )


def pool_over(upstream: Kind) -> Kind:
    """The kind of a pool over one of another kind."""
    return over(upstream, "PoolMemoryResource", lambda pm, below: pm.PoolMemoryResource(below), stream_ordered=True)


def adaptor_over(upstream: Kind, cls: str) -> Kind:
    return over(upstream, cls, ADAPTORS[cls])


def callback_over(upstream: Kind) -> Kind:
    """The kind of a callback resource whose two functions go to a resource of another kind."""

    def make(pm: ModuleType, device: Any) -> Any:
        below = upstream.make(pm, device)
        return pm.CallbackMemoryResource(
            lambda nbytes, stream: below.allocate(nbytes, stream=stream).release(),
            lambda ptr, nbytes, stream: below.deallocate(ptr, nbytes, stream=stream),
            device=device,
            kind=upstream.kind,
            host_accessible=below.is_host_accessible,
            stream_ordered=below.is_stream_ordered,
        )

    return replace(upstream, name=f"callback-{upstream.name}", make=make, cls="CallbackMemoryResource")


def adaptor_over_memory_it_takes(cls: str, upstream: Callable[[Kind], Kind] = lambda kind: kind) -> Kind:
    """The kind of an adaptor over what ``upstream`` makes of device memory, or of managed where only that will do."""
    return adaptor_over(upstream(KINDS["managed" if cls == "PrefetchAdaptor" else "device"]), cls)


POOLED = ("device", "pinned", "pinned-prefaulted", "managed", "system", "async", "virtual")
"""The kinds of the runtime that a pool stands over here."""


def _all() -> list[Kind]:
    device = KINDS["device"]
    return [
        *map(pool_over, (KINDS[name] for name in POOLED)),
        over(
            device,
            "FixedSizeMemoryResource",
            lambda pm, below: pm.FixedSizeMemoryResource(below, "2 MiB"),
            stream_ordered=True,
        ),
        over(device, "MonotonicMemoryResource", lambda pm, below: pm.MonotonicMemoryResource(below)),
        callback_over(device),
        *(adaptor_over_memory_it_takes(cls) for cls in ADAPTORS),
        *(adaptor_over_memory_it_takes(cls, pool_over) for cls in ADAPTORS),
    ]


for _kind in _all():
    register(_kind)
