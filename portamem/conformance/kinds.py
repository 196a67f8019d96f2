# SPDX-License-Identifier: MIT
"""Every kind of memory resource, in one table: a kind that is registered is held to every clause that binds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any


def _always(capabilities: Any) -> bool:
    return True


@dataclass(frozen=True)
class Kind:
    """A kind of resource: how to make one, and what it must say of itself."""

    name: str
    make: Callable[[ModuleType, Any], Any]
    """From a backend's module and one of its devices."""
    kind: str
    """The resource's own ``kind``."""
    host_memory: bool = False
    """The memory is the host's: its ``device_id`` is -1."""
    stream_ordered: bool = False
    capability: str = ""
    """What it needs, in words: the text of "unsupported"."""
    needs: Callable[[Any], bool] = _always
    """Whether a device's capabilities give that."""


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Adds a kind to the suite. ValueError for a name that is taken."""
    if kind.name in KINDS:
        raise ValueError(f"there is a kind {kind.name!r} already: give yours another name")
    KINDS[kind.name] = kind
    return kind


def _pools(capabilities: Any) -> bool:
    return bool(capabilities.memory_pools)


def _managed(capabilities: Any) -> bool:
    return bool(capabilities.managed_mode != "none")


register(Kind("device", lambda pm, device: pm.DeviceMemoryResource(device), "device"))
register(Kind("pinned", lambda pm, device: pm.PinnedMemoryResource(device), "pinned", host_memory=True))
register(
    Kind(
        "pinned-non_coherent",
        lambda pm, device: pm.PinnedMemoryResource(device, coherence="non_coherent"),
        "pinned",
        host_memory=True,
    )
)
register(
    Kind(
        "pinned-prefaulted",
        lambda pm, device: pm.PrefaultedPinnedMemoryResource(device),
        "pinned",
        host_memory=True,
    )
)
register(
    Kind(
        "managed",
        lambda pm, device: pm.ManagedMemoryResource(device),
        "managed",
        capability="managed_mode",
        needs=_managed,
    )
)
register(Kind("system", lambda pm, device: pm.SystemMemoryResource(device), "system", host_memory=True))
register(
    Kind(
        "async",
        lambda pm, device: pm.AsyncMemoryResource(device),
        "async",
        stream_ordered=True,
        capability="memory_pools",
        needs=_pools,
    )
)
register(
    Kind(
        "async-default_pool",
        lambda pm, device: pm.AsyncMemoryResource.default_pool(device),
        "async",
        stream_ordered=True,
        capability="memory_pools",
        needs=_pools,
    )
)

SELECTORS: dict[str, Callable[[Kind], bool]] = {
    "every resource": lambda kind: True,
    "stream-ordered resources": lambda kind: kind.stream_ordered,
    "resources without stream order": lambda kind: not kind.stream_ordered,
    "device memory": lambda kind: kind.kind in ("device", "async"),
    "plain device memory": lambda kind: kind.kind == "device",
    "host memory": lambda kind: kind.host_memory,
    "host-accessible memory": lambda kind: kind.host_memory or kind.kind == "managed",
    "pinned memory": lambda kind: kind.kind == "pinned",
    "managed memory": lambda kind: kind.kind == "managed",
    "system memory": lambda kind: kind.kind == "system",
    "memory of the runtime": lambda kind: kind.kind != "system",
    "plain memory of the runtime": lambda kind: kind.kind in ("device", "pinned", "managed"),
    "pools": lambda kind: kind.kind == "async",
}
"""The words by which clauses name the resources that they bind."""


def selected(words: str) -> list[Kind]:
    """The registered kinds that a clause binds, in the order in which they were registered."""
    return [kind for kind in KINDS.values() if SELECTORS[words](kind)]


_FREES = {"device": "Free", "managed": "Free", "pinned": "HostFree", "async": "FreeAsync"}


def freeing_call(resource: Any) -> str:
    """The runtime's call that takes a resource's memory back; empty where there is none."""
    return "HostUnregister" if getattr(resource, "registers", False) else _FREES.get(resource.kind, "")
