# SPDX-License-Identifier: MIT
"""Every kind of memory resource, in one table: a kind that is registered is held to every clause that binds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any


def _always(capabilities: Any) -> bool:
    return True


@dataclass(frozen=True)
class Kind:
    """A kind of resource: how to make one, and what it must say of itself."""

    name: str
    make: Callable[[ModuleType, Any], Any]
    """Makes a resource from a backend's module and one of its devices."""
    kind: str
    """The resource's own ``kind``."""
    host_memory: bool = False
    """The memory is the host's: its ``device_id`` is -1."""
    stream_ordered: bool = False
    capability: str = ""
    """The ability that it needs, in words: the text of "unsupported"."""
    needs: Callable[[Any], bool] = _always
    """Tells whether a device's capabilities give that."""
    cls: str = ""
    """The class that makes it, where that stands over other resources; empty: the runtime's calls make the memory."""
    upstream: Kind | None = None
    """The kind of the resource that it stands over, whose memory it gives."""
    over: Callable[[ModuleType, Any], Any] | None = None
    """Makes one over a resource of that kind."""
    direct_host_access: bool = False
    """The host reaches device memory where it is made."""

    @property
    def host_accessible(self) -> bool:
        """True where the host reaches its memory."""
        return self.host_memory or self.kind == "managed" or (self.kind == "device" and self.direct_host_access)

    @property
    def keeps(self) -> bool:
        """True where a closed buffer's memory stays with the resource, or with one below it."""
        return self._has(KEEPING)

    @property
    def knows(self) -> bool:
        """True where the resource, or one below it, can tell a buffer that is out from any other address."""
        return self.kind in ("system", "virtual") or self._has(KNOWING)

    def on(self, *, direct_host_access: bool) -> Kind:
        """The kind on a device whose memory the host reaches, or does not: blocks that the host reaches are handed out
        again when the work on them has run, and follow no stream."""
        if self.kind != "device":
            return self
        ordered = not direct_host_access if self._has(("FixedSizeMemoryResource",)) else self.stream_ordered
        return replace(self, direct_host_access=direct_host_access, stream_ordered=ordered)

    def _has(self, classes: tuple[str, ...]) -> bool:
        return self.cls in classes or (self.upstream is not None and self.upstream._has(classes))


KEEPING = ("PoolMemoryResource", "FixedSizeMemoryResource", "MonotonicMemoryResource")
"""Classes that carve their buffers out of larger memory, and keep what comes back."""
RECORDING = ("StatisticsAdaptor", "TrackingAdaptor", "LoggingAdaptor")
"""Classes that record each buffer that is out."""
KNOWING = (
    *(*KEEPING, "CallbackMemoryResource", *RECORDING),
    *("LimitingAdaptor", "FailureCallbackAdaptor", "FallbackAdaptor", "PrefetchAdaptor"),
)
"""Classes that know each buffer that is out; of other memory the runtime does, and says what is none."""

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
register(
    Kind(
        "virtual",
        lambda pm, device: pm.VirtualMemoryResource(device),
        "virtual",
        capability="virtual_memory",
        needs=lambda capabilities: bool(capabilities.virtual_memory),
    )
)


def _is_pool(kind: Kind) -> bool:
    return kind.cls == "PoolMemoryResource"


SELECTORS: dict[str, Callable[[Kind], bool]] = {
    "every resource": lambda kind: True,
    "every resource of the runtime": lambda kind: not kind.cls,
    "stream-ordered resources": lambda kind: kind.stream_ordered,
    "resources without stream order": lambda kind: not kind.stream_ordered,
    "resources without stream order that keep nothing": lambda kind: not kind.stream_ordered and not kind.keeps,
    "device memory": lambda kind: kind.kind in ("device", "async", "virtual"),
    "device memory of the runtime": lambda kind: kind.kind in ("device", "async", "virtual") and not kind.cls,
    "plain device memory": lambda kind: kind.kind == "device" and not kind.cls,
    "host memory": lambda kind: kind.host_memory,
    "host-accessible memory": lambda kind: kind.host_memory or kind.kind == "managed",
    "pinned memory": lambda kind: kind.kind == "pinned" and not kind.cls,
    "managed memory": lambda kind: kind.kind == "managed" and not kind.cls,
    "system memory": lambda kind: kind.kind == "system" and not kind.cls,
    "all but system memory": lambda kind: kind.kind != "system",
    "memory of the runtime": lambda kind: kind.kind != "system" and not kind.keeps,
    "plain memory of the runtime": lambda kind: kind.kind in ("device", "pinned", "managed") and not kind.keeps,
    "memory whose frees the runtime judges": lambda kind: kind.kind != "system" and not kind.keeps and not kind.knows,
    "plain memory whose frees the runtime judges": lambda kind: (
        kind.kind in ("device", "pinned", "managed") and not kind.keeps and not kind.knows
    ),
    "resources of any size": lambda kind: kind.cls != "FixedSizeMemoryResource",
    "virtual memory": lambda kind: kind.kind == "virtual" and not kind.cls,
    "the driver's pools": lambda kind: kind.kind == "async" and not kind.cls,
    "pools": lambda kind: _is_pool(kind),
    "pools of memory that the host reaches": lambda kind: _is_pool(kind) and kind.host_accessible,
    "pools of memory that devices alone reach": lambda kind: _is_pool(kind) and not kind.host_accessible,
    "resources that know their buffers": lambda kind: kind.knows,
    "resources over an upstream": lambda kind: kind.upstream is not None,
    "adaptors": lambda kind: kind.cls.endswith("Adaptor"),
}
"""The words by which clauses name the resources that they bind."""


def selected(words: str) -> list[Kind]:
    """The registered kinds that a clause binds, on some device, in the order in which they were registered."""
    fits = SELECTORS[words]
    return [kind for kind in KINDS.values() if any(fits(kind.on(direct_host_access=on)) for on in (False, True))]


def binds(words: str, kind: Kind, capabilities: Any) -> bool:
    """True where a clause binds a kind on a device with these capabilities."""
    return SELECTORS[words](kind.on(direct_host_access=bool(capabilities.direct_host_access)))


_FREES = {"device": "Free", "managed": "Free", "pinned": "HostFree", "async": "FreeAsync", "virtual": "MemUnmap"}


def freeing_call(resource: Any) -> str:
    """The runtime's call that takes a resource's memory back; empty where there is none."""
    return "HostUnregister" if getattr(resource, "registers", False) else _FREES.get(resource.kind, "")
