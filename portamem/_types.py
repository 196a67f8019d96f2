# SPDX-License-Identifier: MIT
"""The classes that all backends have, as abstract ones: ``portamem.Buffer``, ``portamem.Stream`` and so on.

Each backend's own class is registered with the one of its name here, so ``isinstance(x, portamem.Buffer)`` is true
for all three. Calling one, or taking something from it (``portamem.Buffer.from_handle``), goes to the class of that
name in the chosen backend.
"""

from __future__ import annotations

from abc import ABCMeta

TYPE_CHECKING = False  # what `typing` has, without the milliseconds that importing it costs
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class BackendType(ABCMeta):
    """Metaclass: forwards construction and static members to the chosen backend's class of the same name."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> BackendType:
        # A class of somebody's own would look for itself in the backend, when it is called.
        for base in bases:
            if isinstance(base, BackendType) and namespace.get("__module__") != __name__:
                raise TypeError(f"type 'portamem.{base.__name__}' is not an acceptable base type")
        return super().__new__(mcls, name, bases, namespace, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _of_backend(cls)(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type {cls.__name__!r} has no attribute {name!r}")
        return getattr(_of_backend(cls), name)


def _of_backend(cls: type) -> Any:
    from portamem import _choice  # chooses only now: importing portamem chooses nothing

    return getattr(_choice.chosen(), cls.__name__)


class Device(metaclass=BackendType):
    """A device of a backend."""


class Stream(metaclass=BackendType):
    """An in-order queue of work on a device."""

    backend: str


class Event(metaclass=BackendType):
    """A mark in a stream."""


class Buffer(metaclass=BackendType):
    """Untyped memory."""


class PitchedBuffer(Buffer):
    """Rows of memory with padding between them."""


class View(metaclass=BackendType):
    """Typed memory of a Buffer."""


class MemoryResource(metaclass=BackendType):
    """Where buffers come from."""


class DeviceMemoryResource(MemoryResource):
    """Plain device memory."""


class PinnedMemoryResource(MemoryResource):
    """Page-locked host memory."""


class PrefaultedPinnedMemoryResource(MemoryResource):
    """Page-locked host memory that is there quickly."""


class ManagedMemoryResource(MemoryResource):
    """Managed (unified) memory."""


class SystemMemoryResource(MemoryResource):
    """Ordinary host memory."""


class AsyncMemoryResource(MemoryResource):
    """Stream-ordered memory of a driver pool."""


class FixedSizeMemoryResource(MemoryResource):
    """Equal blocks of another resource's memory."""


class MonotonicMemoryResource(MemoryResource):
    """Memory of another resource that goes back all at once."""


class CallbackMemoryResource(MemoryResource):
    """Memory of two functions of the program's."""


class PoolMemoryResource(MemoryResource):
    """Memory of another resource, kept and handed out again."""


class ResourceAdaptor(MemoryResource):
    """A resource over another one."""


class StatisticsAdaptor(ResourceAdaptor):
    """Counts what goes through it."""


class TrackingAdaptor(ResourceAdaptor):
    """Knows each allocation that is out."""


class LoggingAdaptor(ResourceAdaptor):
    """Writes a line of JSON for every call."""


class LimitingAdaptor(ResourceAdaptor):
    """No more than so many bytes of another resource."""


class FailureCallbackAdaptor(ResourceAdaptor):
    """A chance to make room when there is no memory."""


class PrefetchAdaptor(ResourceAdaptor):
    """Memory that is prefetched as it is allocated."""


class HostRegistration(metaclass=BackendType):
    """Memory of a Python object, page-locked."""


TYPES: tuple[BackendType, ...] = (
    Device,
    Stream,
    Event,
    Buffer,
    PitchedBuffer,
    View,
    MemoryResource,
    DeviceMemoryResource,
    PinnedMemoryResource,
    PrefaultedPinnedMemoryResource,
    ManagedMemoryResource,
    SystemMemoryResource,
    AsyncMemoryResource,
    FixedSizeMemoryResource,
    MonotonicMemoryResource,
    CallbackMemoryResource,
    PoolMemoryResource,
    ResourceAdaptor,
    StatisticsAdaptor,
    TrackingAdaptor,
    LoggingAdaptor,
    LimitingAdaptor,
    FailureCallbackAdaptor,
    PrefetchAdaptor,
    HostRegistration,
)

for _cls in TYPES:
    _cls.__module__ = "portamem"


def register(native: ModuleType) -> None:
    """Makes a backend's classes virtual subclasses of these."""
    for cls in TYPES:
        cls.register(getattr(native, cls.__name__))
