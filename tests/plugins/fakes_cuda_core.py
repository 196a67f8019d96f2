"""A stand-in for cuda.core: the calls between its buffers and its memory resources, as release 1.2 makes them, and as
release 0.5 does."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any


class MemoryResource:
    """Is subclassed by programs."""


class Stream:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    @staticmethod
    def from_handle(handle: int) -> Stream:
        return Stream(handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class GraphBuilder:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream


class _Buffer:
    def __init__(self, ptr: int, size: int, mr: Any, owner: Any, stream: Any) -> None:
        self.handle, self.size, self.memory_resource, self.owner, self._stream = int(ptr), size, mr, owner, stream
        self._is_open = True

    def _give_back(self, stream: Any) -> None:
        raise NotImplementedError

    def close(self, stream: Any = None) -> None:
        if self._is_open and self.memory_resource is not None:
            self._is_open = False
            self._give_back(stream)

    def __del__(self) -> None:
        self.close()


class Buffer(_Buffer):
    """As of release 1.2."""

    @classmethod
    def from_handle(cls, ptr: int, size: int, mr: Any = None, owner: Any = None, *, stream: Any = None) -> Buffer:
        if stream is not None and not isinstance(stream, (Stream, GraphBuilder)):
            raise TypeError(f"Stream or GraphBuilder expected, got {type(stream).__name__}")
        return cls(ptr, size, mr, owner, Stream(1) if stream is None else stream)

    def _give_back(self, stream: Any) -> None:
        self.memory_resource.deallocate(self.handle, self.size, stream=stream or self._stream)

    def copy_to(self, dst: Any = None, *, stream: Any) -> Any:
        return self.memory_resource.allocate(self.size, stream=stream)


class OlderBuffer(_Buffer):
    """As of release 0.5."""

    @classmethod
    def from_handle(cls, ptr: int, size: int, mr: Any = None, owner: Any = None) -> OlderBuffer:
        return cls(ptr, size, mr, owner, None)

    def _give_back(self, stream: Any) -> None:
        self.memory_resource.deallocate(self.handle, self.size, stream)

    def copy_to(self, dst: Any = None, *, stream: Any) -> Any:
        return self.memory_resource.allocate(self.size, stream)


def module(buffer: Any) -> ModuleType:
    made: Any = ModuleType("cuda.core")
    made.MemoryResource, made.Stream, made.GraphBuilder, made.Buffer = MemoryResource, Stream, GraphBuilder, buffer
    made.DeviceMemoryResource = type("DeviceMemoryResource", (MemoryResource,), {})
    return made


def heap(core: Any, base: Any = None, *, on_device: bool = False, device_id: int = -1) -> Any:
    """A memory resource of a program, of aligned host memory: cuda.core's own kinds need a driver."""

    class Heap(base or core.MemoryResource):  # type: ignore[misc]
        is_device_accessible = on_device
        is_host_accessible = not on_device
        is_managed = False

        def __init__(self) -> None:
            self.out: dict[int, Any] = {}
            self.calls: list[tuple[str, int, Any]] = []
            self.error: Exception | None = None

        @property
        def device_id(self) -> int:
            return device_id

        def allocate(self, size: int, *, stream: Any = None) -> Any:
            if self.error is not None:
                raise self.error
            memory = (ctypes.c_char * (size + 256))()
            address = -(-ctypes.addressof(memory) // 256) * 256
            self.out[address] = memory
            self.calls.append(("allocate", size, stream and stream.__cuda_stream__()[1]))
            return core.Buffer.from_handle(address, size, mr=self)

        def deallocate(self, ptr: Any, size: int, stream: Any = None) -> None:
            handle = stream.__cuda_stream__()[1] if stream is not None and on_device else None
            self.calls.append(("deallocate", size, handle))
            del self.out[int(ptr)]

    return Heap()
