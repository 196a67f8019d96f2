"""A stand-in for nvmath-python 1.0: its protocols of allocators, and a workspace that takes and frees memory as its
operations do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class BaseCUDAMemoryManager(Protocol):
    @abstractmethod
    def __init__(self, device_id: int, logger: Any) -> None: ...
    @abstractmethod
    def memalloc(self, size: int) -> Any: ...


@runtime_checkable
class BaseCUDAMemoryManagerAsync(Protocol):
    @abstractmethod
    def __init__(self, device_id: int, logger: Any) -> None: ...
    @abstractmethod
    def memalloc_async(self, size: int, stream: Any) -> Any: ...


class ForeignStream:
    """As a ``cuda.core.Stream``."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


def address_of(memory: Any) -> int:
    for name in ("device_ptr", "device_pointer", "ptr", "pointer"):
        if hasattr(memory, name):
            return int(getattr(memory, name))
    raise AttributeError("Memory pointer objects should have an attribute specifying the device pointer")


class Workspace:
    def __init__(self, allocator: Any) -> None:
        if not isinstance(allocator, (BaseCUDAMemoryManager, BaseCUDAMemoryManagerAsync)):
            raise TypeError("The allocator must be an object that fulfills the BaseCUDAMemoryManager protocol.")
        self._allocator = allocator
        self.memory: Any = None

    def allocate(self, size: int, stream: Any) -> int:
        if isinstance(self._allocator, BaseCUDAMemoryManagerAsync):
            self.memory = self._allocator.memalloc_async(size, stream)
        else:
            self.memory = self._allocator.memalloc(size)
        return address_of(self.memory)

    def release(self) -> None:
        """The real one has the stream of the allocation wait for the last work before."""
        self.memory = None
