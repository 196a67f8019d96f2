# SPDX-License-Identifier: MIT
"""The target of a replay: a backend's devices, streams, and a resource on each device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from portamem.conformance.kit.kinds import KINDS
from portamem.replay import stack
from portamem.replay.log import LoggedStream

DEFAULT = "default"
SHORT = {"pool": "pool-device"}
_ONE_CALL_EACH = ("DeviceMemoryResource", "PinnedMemoryResource", "ManagedMemoryResource", "SystemMemoryResource")
"""Classes that keep nothing: what is reserved is what is live."""


def names() -> list[str]:
    """The names that ``--resource`` takes: the device's own resource, and the kinds of the conformance suite."""
    return [DEFAULT, *(short for short, full in SHORT.items() if full in KINDS), *KINDS]


class Target:
    """A resource of one name on every device that is asked for. Thread-safe after ``prepare``.

    A name with a colon is that of a function which makes the resource: that belongs to its maker, and is not closed.
    """

    def __init__(self, pm: ModuleType, name: str, device: int | None = None) -> None:
        if ":" not in name and name not in names():
            raise ValueError(f"a resource is one of {', '.join(names())}, or MODULE:FUNCTION, not {name!r}")
        self.pm = pm
        self.name = name
        self._factory = stack.factory(name) if ":" in name else None
        self._device = device
        self._count = pm.device_count()
        self._resources: dict[int, Any] = {}
        self._below: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}

    def device(self, recorded: int) -> Any:
        """The device that stands for a recorded one. ValueError where there is none."""
        ordinal = recorded if self._device is None else self._device
        if not 0 <= ordinal < self._count:
            raise ValueError(
                f"device {ordinal} is not here ({self._count} of {self.pm.backend} are): --device N runs all on one"
            )
        return self.pm.Device(ordinal)

    def resource(self, recorded: int) -> Any:
        """The resource on the device that stands for a recorded one."""
        device = self.device(recorded)
        if device.ordinal not in self._resources:
            self._resources[device.ordinal] = self._make(device)
        return self._resources[device.ordinal]

    def _make(self, device: Any) -> Any:
        if self._factory is not None:
            return stack.make(self.name, self._factory, self.pm, device)
        if self.name == DEFAULT:
            return self.pm.current_resource(device)
        kind = KINDS[SHORT.get(self.name, self.name)]
        if not kind.needs(device.capabilities):
            raise ValueError(f"{device!r} has no {kind.name} memory")
        if kind.upstream is None or kind.over is None:
            return kind.make(self.pm, device)
        # The adaptor counts all memory that the resource takes, whatever the resource can say of itself.
        below = self.pm.StatisticsAdaptor(kind.upstream.make(self.pm, device))
        self._below[device.ordinal] = below
        return kind.over(self.pm, below)

    def stream(self, recorded: LoggedStream) -> Any:
        """The stream that stands for a recorded one, for the calling thread."""
        if recorded.role == "per_thread":
            return self.device(recorded.device).per_thread_stream
        if recorded.id not in self._streams:
            device = self.device(recorded.device)
            self._streams[recorded.id] = device.default_stream if recorded.role == "legacy" else self.pm.Stream(device)
        return self._streams[recorded.id]

    @property
    def wants_release(self) -> bool:
        """True where freed memory stays with a resource until release(), which no log has."""
        return any(
            isinstance(each, self.pm.MonotonicMemoryResource)
            for resource in self._resources.values()
            for each in _stack(resource)
        )

    def start(self) -> None:
        """Starts the count: the peak of what is reserved counts from here on."""
        for resource in map(self._reserving, self._resources.values()):
            if hasattr(resource, "reset_high"):
                resource.reset_high()
            elif isinstance(resource, self.pm.PoolMemoryResource):
                resource.reset_peak()

    def peak_reserved(self, peak_live: int) -> int | None:
        """Bytes that the resources had of their devices at most; None where one cannot say."""
        reserving = {ordinal: self._reserving(resource) for ordinal, resource in self._resources.items()}
        if all(type(resource).__name__ in _ONE_CALL_EACH for resource in reserving.values()):
            return peak_live
        peak = 0
        for ordinal, resource in reserving.items():
            if ordinal in self._below and resource is self._resources[ordinal]:
                peak += self._below[ordinal].counts.peak_bytes
            elif hasattr(resource, "reserved_high"):
                peak += resource.reserved_high
            elif isinstance(resource, self.pm.PoolMemoryResource):
                peak += resource.stats().peak
            else:
                return None
        return peak

    def _reserving(self, resource: Any) -> Any:
        """The resource that an adaptor passes its calls on to; any other resource itself."""
        return next(each for each in _stack(resource) if not isinstance(each, self.pm.ResourceAdaptor))

    def close(self) -> None:
        """Waits for the devices, and closes what was made here."""
        for ordinal in self._resources:
            self.pm.Device(ordinal).synchronize()
        if self.name != DEFAULT and self._factory is None:
            for resource in self._resources.values():
                resource.close()
        for stream in self._streams.values():
            if stream != stream.device.default_stream:
                stream.close()


def _stack(resource: Any) -> list[Any]:
    """A resource and what it stands over, from the top down."""
    found = [resource]
    while (below := getattr(found[-1], "upstream", None)) is not None:
        found.append(below)
    return found
