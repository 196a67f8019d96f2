"""A stand-in for the CUDA target of Numba: what the driver module of numba-cuda 0.30 and numba-cuda-mlir 0.6 has of
devices, contexts, memory managers and memory, without a driver. Arrays are stood for by the memory that they hold."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
import weakref
from abc import ABCMeta, abstractmethod
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

MemoryInfo = namedtuple("MemoryInfo", "free,total")
_memory_manager: Any = None
setting = "default"  # config.CUDA_MEMORY_MANAGER
binding = SimpleNamespace(CUdeviceptr=int)  # cuda.bindings.driver
_SUPPORTED_EMM_INTERFACE_VERSION = 1


class UniqueDict(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        if key in self:
            raise AssertionError("key already in dictionary")
        super().__setitem__(key, value)


class BaseCUDAMemoryManager(metaclass=ABCMeta):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "context" not in kwargs:
            raise RuntimeError("Memory manager requires a context")
        self.context = kwargs.pop("context")

    @abstractmethod
    def memalloc(self, size: int) -> Any: ...
    @abstractmethod
    def memhostalloc(self, size: int, mapped: bool, portable: bool, wc: bool) -> Any: ...
    @abstractmethod
    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool) -> Any: ...
    @abstractmethod
    def initialize(self) -> None: ...
    @abstractmethod
    def get_ipc_handle(self, memory: Any) -> Any: ...
    @abstractmethod
    def get_memory_info(self) -> Any: ...
    @abstractmethod
    def reset(self) -> None: ...
    @abstractmethod
    def defer_cleanup(self) -> Any: ...
    @property
    @abstractmethod
    def interface_version(self) -> int: ...


class HostOnlyCUDAMemoryManager(BaseCUDAMemoryManager):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allocations = UniqueDict()
        self.deallocations = _PendingDeallocs()

    def memhostalloc(self, size: int, mapped: bool = False, portable: bool = False, wc: bool = False) -> Any:
        raise AssertionError("cuMemHostAlloc")

    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool = False) -> Any:
        raise NotImplementedError("cuMemHostRegister")

    def memallocmanaged(self, size: int, attach_global: bool) -> Any:
        raise NotImplementedError("cuMemAllocManaged")

    def reset(self) -> None:
        self.allocations.clear()
        self.deallocations.clear()

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        with self.deallocations.disable():
            yield


class GetIpcHandleMixin:
    def get_ipc_handle(self, memory: Any) -> Any:
        return SimpleNamespace(base=memory, size=memory.size)


class NumbaCUDAMemoryManager(GetIpcHandleMixin, HostOnlyCUDAMemoryManager):
    def initialize(self) -> None: ...

    def memalloc(self, size: int) -> Any:
        return MemoryPointer(weakref.proxy(self.context), ctypes.c_void_p(4096), size)

    def get_memory_info(self) -> Any:
        return MemoryInfo(free=1, total=1)

    @property
    def interface_version(self) -> int:
        return _SUPPORTED_EMM_INTERFACE_VERSION


def _ensure_memory_manager() -> None:
    global _memory_manager
    if _memory_manager:
        return
    if setting == "default":
        _memory_manager = NumbaCUDAMemoryManager
        return
    set_memory_manager(importlib.import_module(setting)._numba_memory_manager)


def set_memory_manager(mm_plugin: Any) -> None:
    global _memory_manager
    if mm_plugin(context=None).interface_version != _SUPPORTED_EMM_INTERFACE_VERSION:
        raise RuntimeError("EMM Plugin interface has another version")
    _memory_manager = mm_plugin


class _PendingDeallocs:
    def __init__(self) -> None:
        self._cons: deque[Any] = deque()
        self._disable_count = 0
        self._size = 0
        self.memory_capacity = 0

    def add_item(self, dtor: Callable[[Any], object], handle: Any, size: int = 0) -> None:
        assert dtor.__name__  # which Numba logs
        self._cons.append((dtor, handle, size))
        self._size += int(size)
        if len(self._cons) > 10 or self._size > int(self.memory_capacity * 0.2):
            self.clear()

    def clear(self) -> None:
        if not self._disable_count:
            while self._cons:
                dtor, handle, _ = self._cons.popleft()
                dtor(handle)
            self._size = 0

    @contextlib.contextmanager
    def disable(self) -> Iterator[None]:
        self._disable_count += 1
        try:
            yield
        finally:
            self._disable_count -= 1

    def __len__(self) -> int:
        return len(self._cons)


class MemoryPointer:
    def __init__(
        self, context: Any, pointer: Any, size: int, owner: Any = None, finalizer: Callable[[], object] | None = None
    ) -> None:
        if isinstance(pointer, ctypes.c_void_p):
            pointer = int(pointer.value)  # type: ignore[arg-type]  # a CUdeviceptr takes no None
        self.context, self.device_pointer, self.size = context, pointer, size
        self.handle = pointer
        self.is_managed = finalizer is not None
        self.refct = 1
        self._owner = owner
        if finalizer is not None:
            self._finalizer = weakref.finalize(self, finalizer)

    def free(self) -> None:
        if not self._finalizer.alive:
            raise RuntimeError("Freeing dead memory")
        self._finalizer()


class MappedMemory(MemoryPointer):
    def __init__(
        self, context: Any, pointer: Any, size: int, owner: Any = None, finalizer: Callable[[], object] | None = None
    ) -> None:
        super().__init__(context, pointer, size, finalizer=finalizer)
        self.host_pointer = pointer
        self.refct -= 1  # as an AutoFreePointer: the manager holds it, and the last owner frees it

    def own(self) -> OwnedPointer:
        return OwnedPointer(weakref.proxy(self))


class PinnedMemory:
    def __init__(
        self, context: Any, pointer: Any, size: int, owner: Any = None, finalizer: Callable[[], object] | None = None
    ) -> None:
        self.context, self.host_pointer, self.size, self.handle = context, pointer, size, pointer
        if finalizer is not None:
            weakref.finalize(self, finalizer)


class OwnedPointer:
    def __init__(self, memptr: Any) -> None:
        self._mem = memptr

        def deref() -> None:
            with contextlib.suppress(ReferenceError):
                memptr.refct -= 1
                if memptr.refct == 0:
                    memptr.free()

        memptr.refct += 1
        weakref.finalize(self, deref)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mem, name)


class Context:
    def __init__(self, device: Any) -> None:
        self.device = device
        _ensure_memory_manager()
        self.memory_manager = _memory_manager(context=self)
        self.memory_manager.initialize()

    def reset(self) -> None:
        self.memory_manager.reset()


class Device:
    def __init__(self, number: int) -> None:
        self.id = number
        self.primary_context: Context | None = None

    def get_primary_context(self) -> Context:
        if self.primary_context is None:
            self.primary_context = Context(self)
        return self.primary_context


class Driver:
    def __init__(self) -> None:
        self.devices: dict[int, Device] = {}

    def list_devices(self) -> list[Device]:
        return list(self.devices.values())


driver = Driver()


def context(number: int = 0) -> Any:
    """The context of a device, which is made at first use."""
    if number not in driver.devices:
        driver.devices[number] = Device(number)
    return driver.devices[number].get_primary_context()


def target(monkeypatch: pytest.MonkeyPatch, backend: str) -> Any:
    """A fresh stand-in as a module like ``numba.cuda``, over memory of a backend."""
    from portamem.plugins import numba as plug

    monkeypatch.setattr(plug, "_BACKENDS", (backend,))
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "_memory_manager", None)
    monkeypatch.setattr(here, "driver", Driver())
    made = ModuleType("fake.cuda")
    made.set_memory_manager = set_memory_manager  # type: ignore[attr-defined]
    return made
