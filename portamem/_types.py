# SPDX-License-Identifier: MIT
"""The classes that all backends have, as abstract ones: ``portamem.Buffer``, ``portamem.Stream`` and so on.

Each backend's own class is registered with the one of its name here, so ``isinstance(x, portamem.Buffer)`` is true
for all three. Calling one, or a static method of one (``portamem.Buffer.from_handle``), goes to the class of that name
in the chosen backend; other methods go to their object's own class.
"""

from __future__ import annotations

from abc import ABCMeta

TYPE_CHECKING = False  # type checkers take it for `typing`'s, without the milliseconds that importing that costs
if TYPE_CHECKING:
    from inspect import Signature
    from types import ModuleType
    from typing import Any


class _Doc:
    """The docstring of a class, read when a program asks for it."""

    def __get__(self, instance: object, cls: type) -> str:
        from portamem import _members

        _members.settle(cls)
        return _members.doc_of(cls)


class _Init:
    """Stands for ``__init__`` until a program asks for it: every class inherits one from ``object``."""

    def __get__(self, instance: object, cls: type) -> Any:
        from portamem import _members

        _members.settle(cls)
        found = [each.__dict__["__init__"] for each in cls.__mro__ if "__init__" in each.__dict__]
        return next(each for each in found if not isinstance(each, _Init))


class BackendType(ABCMeta):
    """Metaclass: forwards construction and static members to the chosen backend's class of the same name.

    What help(), dir() and inspect see is made of the stub's words, without choosing a backend.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> BackendType:
        # A program's own class would look for itself in the backend, when it is called.
        for base in bases:
            if isinstance(base, BackendType) and namespace.get("__module__") != __name__:
                raise TypeError(f"type 'portamem.{base.__name__}' is not an acceptable base type")
        namespace.update(__slots__=(), __doc__=_Doc(), __init__=_Init())
        return super().__new__(mcls, name, bases, namespace, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return of_backend(cls)(*args, **kwargs)

    def __dir__(cls) -> list[str]:
        from portamem import _members

        _members.settle(cls)
        return _members.names_of(cls)

    @property
    def __signature__(cls) -> Signature:
        from portamem import _members

        _members.settle(cls)  # help() asks for the signature first, and reads the class as it is from there on
        return _members.signature_of(cls)

    def __getattr__(cls, name: str) -> Any:
        is_special = name.startswith("__") and name != "__abstractmethods__"  # which Python asks for at import
        if is_special or not name.startswith("_"):
            from portamem import _members

            found = _members.take(cls, name)
            if found is not None:
                return found
        raise AttributeError(f"type 'portamem.{cls.__name__}' has no attribute {name!r}")


def of_backend(cls: type) -> Any:
    """The class of that name in the chosen backend, which is chosen only now: importing portamem chooses none."""
    from portamem import _choice

    return getattr(_choice.chosen(), cls.__name__)


class Device(metaclass=BackendType): ...


class Stream(metaclass=BackendType):
    backend: str


class Event(metaclass=BackendType): ...


class Buffer(metaclass=BackendType): ...


class PitchedBuffer(Buffer): ...


class GrowableBuffer(Buffer): ...


class View(metaclass=BackendType): ...


class MemoryResource(metaclass=BackendType): ...


class DeviceMemoryResource(MemoryResource): ...


class PinnedMemoryResource(MemoryResource): ...


class PrefaultedPinnedMemoryResource(MemoryResource): ...


class ManagedMemoryResource(MemoryResource): ...


class SystemMemoryResource(MemoryResource): ...


class AsyncMemoryResource(MemoryResource): ...


class VirtualMemoryResource(MemoryResource): ...


class FixedSizeMemoryResource(MemoryResource): ...


class MonotonicMemoryResource(MemoryResource): ...


class CallbackMemoryResource(MemoryResource): ...


class PoolMemoryResource(MemoryResource): ...


class ResourceAdaptor(MemoryResource): ...


class StatisticsAdaptor(ResourceAdaptor): ...


class TrackingAdaptor(ResourceAdaptor): ...


class LoggingAdaptor(ResourceAdaptor): ...


class LimitingAdaptor(ResourceAdaptor): ...


class FailureCallbackAdaptor(ResourceAdaptor): ...


class FallbackAdaptor(ResourceAdaptor): ...


class PrefetchAdaptor(ResourceAdaptor): ...


class HostRegistration(metaclass=BackendType): ...


TYPES: tuple[BackendType, ...] = (
    Device,
    Stream,
    Event,
    Buffer,
    PitchedBuffer,
    GrowableBuffer,
    View,
    MemoryResource,
    DeviceMemoryResource,
    PinnedMemoryResource,
    PrefaultedPinnedMemoryResource,
    ManagedMemoryResource,
    SystemMemoryResource,
    AsyncMemoryResource,
    VirtualMemoryResource,
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
    FallbackAdaptor,
    PrefetchAdaptor,
    HostRegistration,
)

for _cls in TYPES:
    _cls.__module__ = "portamem"


def register(native: ModuleType) -> None:
    """Makes a backend's classes virtual subclasses of these."""
    for cls in TYPES:
        cls.register(getattr(native, cls.__name__))
