"""Every kind of memory resource, in one table: a new kind is one line here and is covered by every generic test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest


@dataclass(frozen=True)
class Kind:
    """How to make a resource, what it must say of itself, and the capability that it needs."""

    make: Callable[[ModuleType, Any], Any]
    kind: str
    host_memory: bool = False
    stream_ordered: bool = False
    needs: Callable[[Any], bool] = lambda capabilities: True

    def __call__(self, pm: ModuleType, device: Any) -> Any:
        if not self.needs(device.capabilities):
            pytest.skip(f"{device!r} has no memory of kind {self.kind}")
        return self.make(pm, device)


def _has_pools(capabilities: Any) -> bool:
    return bool(capabilities.memory_pools)


def _has_managed(capabilities: Any) -> bool:
    return bool(capabilities.managed_mode != "none")


KINDS: dict[str, Kind] = {
    "device": Kind(lambda pm, device: pm.DeviceMemoryResource(device), "device"),
    "pinned": Kind(lambda pm, device: pm.PinnedMemoryResource(device), "pinned", host_memory=True),
    "pinned-non_coherent": Kind(
        lambda pm, device: pm.PinnedMemoryResource(device, coherence="non_coherent"), "pinned", host_memory=True
    ),
    "managed": Kind(lambda pm, device: pm.ManagedMemoryResource(device), "managed", needs=_has_managed),
    "system": Kind(lambda pm, device: pm.SystemMemoryResource(device), "system", host_memory=True),
    "async": Kind(lambda pm, device: pm.AsyncMemoryResource(device), "async", stream_ordered=True, needs=_has_pools),
    "async-default_pool": Kind(
        lambda pm, device: pm.AsyncMemoryResource.default_pool(device), "async", stream_ordered=True, needs=_has_pools
    ),
}

HOST_REACHABLE = ("pinned", "managed", "system")
"""Kinds that the host reads and writes in place on every backend."""

ASYNC_COPYABLE = ("device", "pinned", "managed", "async")
"""Kinds with which a copy on a stream never blocks the caller, except from host to host: that always may."""
