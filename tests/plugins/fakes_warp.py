"""A stand-in for Warp 1.19: devices, their current streams, allocators, and arrays that only have memory."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest


class Stream:
    def __init__(self, handle: int | None) -> None:
        self.cuda_stream = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, int(self.cuda_stream) if self.cuda_stream else 0)


class BuiltinAllocator:
    def allocate(self, size_in_bytes: int) -> int:
        return 4096

    def deallocate(self, ptr: int, size_in_bytes: int) -> None: ...


class ContextGuard:
    """Counts what is done under it."""

    entered = 0

    def __enter__(self) -> None:
        ContextGuard.entered += 1

    def __exit__(self, *exception: object) -> None: ...


class Device:
    def __init__(self, ordinal: int, is_primary: bool = True) -> None:
        self.ordinal, self.is_primary, self.is_cuda = ordinal, is_primary, ordinal >= 0
        self.is_cpu = not self.is_cuda
        self.current_allocator = BuiltinAllocator()
        self._custom_allocator: Any = None
        self.stream = Stream(None)
        self.context_guard = ContextGuard()

    def get_allocator(self) -> Any:
        return self.current_allocator if self._custom_allocator is None else self._custom_allocator

    def __str__(self) -> str:
        return f"cuda:{self.ordinal}" if self.is_cuda else "cpu"

    def __eq__(self, other: object) -> bool:
        """As Warp's, which has no hash beside it: its devices cannot be keys."""
        return self is other or other == str(self)


class Array:
    """An array as Warp makes and frees it."""

    def __init__(self, capacity: int, device: Device) -> None:
        allocator = device.get_allocator()
        self.deleter = allocator.deallocate
        self.ptr: int | None = None
        if capacity > 0:
            with device.context_guard:
                self.ptr = allocator.allocate(capacity)
        self.capacity, self.device, self._allocator = capacity, device, allocator

    def __del__(self) -> None:
        if getattr(self, "device", None) is None or self.ptr is None:
            return
        try:
            if not getattr(self._allocator, "deallocate_requires_context_guard", True):
                self.deleter(self.ptr, self.capacity)
            else:
                with self.device.context_guard:
                    self.deleter(self.ptr, self.capacity)
        except (TypeError, AttributeError):
            pass


class Warp(ModuleType):
    __version__ = "1.19.0"

    def __init__(self, devices: int) -> None:
        super().__init__("warp")
        self.devices = [Device(ordinal) for ordinal in range(devices)]
        self.cpu = Device(-1)

    def get_cuda_devices(self) -> list[Device]:
        return self.devices

    def get_device(self, ident: Any) -> Device:
        if isinstance(ident, Device):
            return ident
        for device in (*self.devices, self.cpu):
            if str(device) == ident:
                return device
        raise ValueError(f"Invalid device identifier: {ident}")

    def set_device_allocator(self, device: Any, allocator: Any) -> None:
        device = self.get_device(device)
        if not device.is_cuda:
            raise RuntimeError("Custom allocators are only supported on CUDA devices")
        if allocator is not None and not (callable(allocator.allocate) and callable(allocator.deallocate)):
            raise TypeError("allocator must implement the Allocator protocol")
        device._custom_allocator = allocator

    def get_device_allocator(self, device: Any) -> Any:
        return self.get_device(device).get_allocator()


def module(monkeypatch: pytest.MonkeyPatch, backend: Any) -> Warp:
    """A fresh stand-in, which ``import warp`` finds, with the devices of a backend."""
    from portamem.plugins import warp as plug

    monkeypatch.setattr(plug, "_BACKENDS", (backend.backend,))
    made = Warp(backend.device_count())
    monkeypatch.setitem(sys.modules, "warp", made)
    return made
