# SPDX-License-Identifier: MIT
"""portamem as the allocator of NVIDIA Warp, for its arrays on CUDA devices.

``use(resource)`` gives Warp an allocator by ``set_device_allocator``::

    from portamem.plugins import warp

    with warp.use(pool):
        array = wp.zeros(1000, device="cuda:0")  # the pool's

Memory is taken on Warp's current stream of the device. It goes back on the stream that is current when Warp frees it,
behind the work on the stream of its allocation.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any

from portamem.plugins._plug import Plug, changing, checked, library

_BACKENDS = ("cuda",)


def use(resource: Any = None, device: Any = None) -> Plug:
    """Has Warp take the memory of its arrays from ``resource`` (None: the current one of the device).

    ``device`` is Warp's device or its name. None is the device of the resource; without a resource, all CUDA devices.
    Raises ValueError for a device that is no CUDA device, or not the resource's.
    """
    given = checked(resource, "Warp", *_BACKENDS)
    warp: Any = library("warp", "warp-lang", "1.0")
    if not hasattr(warp, "set_device_allocator"):
        raise ImportError(
            f"warp {warp.__version__} has no set_device_allocator: install a later warp-lang", name="warp"
        )
    backend = importlib.import_module(f"portamem.{_BACKENDS[0] if given is None else given.backend}")
    allocators = [_Allocator(backend, each, given) for each in _devices(warp, device, given)]

    def take_out() -> None:
        for each in allocators:
            present = warp.get_device_allocator(each.device)
            if present is not each:
                raise RuntimeError(
                    f"Warp has been given another allocator for {each.device} since, {present!r}: "
                    "set the former one back first"
                )
        _exchange(warp, former)

    with changing("warp"):
        former = _exchange(warp, [(each.device, each) for each in allocators])
        return Plug("warp", given, take_out)


def _exchange(warp: Any, allocators: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Gives each of Warp's devices an allocator, and returns what they had. Where Warp refuses one, all keep theirs."""
    former: list[tuple[Any, Any]] = []
    try:
        for device, allocator in allocators:
            before = _custom(warp, device)
            warp.set_device_allocator(device, allocator)
            former.append((device, before))
    except BaseException:
        for device, before in reversed(former):
            warp.set_device_allocator(device, before)
        raise
    return former


def _devices(warp: Any, device: Any, resource: Any) -> list[Any]:
    known = list(warp.get_cuda_devices())
    if not known:
        raise RuntimeError("Warp finds no CUDA device, and its allocators are for those only")
    if device is not None:
        named = warp.get_device(device)
        if not named.is_cuda:
            raise ValueError(f"Warp's device {named} is no CUDA device, and allocators are for those only")
        if not named.is_primary:
            raise ValueError(f"Warp's device {named} has a context of its own, and portamem uses the primary context")
        if resource is not None and resource.device.ordinal != named.ordinal:
            raise ValueError(f"the resource is of device {resource.device.ordinal}, and Warp's device is {named}")
        return [named]
    if resource is None:
        return known
    found = [each for each in known if each.ordinal == resource.device.ordinal]
    if not found:
        raise ValueError(f"the resource is of device {resource.device.ordinal}, which Warp does not know")
    return found


def _custom(warp: Any, device: Any) -> Any:
    """The allocator that a program gave Warp before, or None where it has its own: that is how Warp takes it back."""
    allocator = warp.get_device_allocator(device)
    return None if allocator is device.current_allocator else allocator


class _Allocator:
    """Warp's allocator for one device. Each array keeps the one that it came from."""

    deallocate_requires_context_guard = False  # portamem finds the device by itself

    def __init__(self, backend: Any, device: Any, resource: Any) -> None:
        self._backend = backend
        self.device = device
        self._resource = resource
        self._buffers: dict[int, Any] = {}
        self._latest: tuple[Any, Any] | None = None  # Warp's stream, and portamem's of the same handle

    def allocate(self, size_in_bytes: int) -> int:
        """Takes memory, and returns its address."""
        resource = self._resource
        if resource is None:
            resource = self._backend.current_resource(self.device.ordinal)
        buffer = resource.allocate(size_in_bytes, stream=self._stream())
        address: int = buffer.handle
        if address:
            self._buffers[address] = buffer
        return address

    def deallocate(self, ptr: int, size_in_bytes: int) -> None:
        """Gives memory back. Raises ValueError for an address that is not out."""
        if not ptr:
            return
        buffer = self._buffers.pop(ptr, None)
        if buffer is None:
            raise ValueError(f"no memory of portamem is out at {ptr:#x} ({size_in_bytes} bytes): was it freed twice?")
        if sys.is_finalizing():
            return
        # The caller is a destructor. Where the free is refused, as within a capture, the buffer gives its memory back
        # by itself later.
        with contextlib.suppress(Exception):
            buffer.close(stream=self._stream())

    def _stream(self) -> Any:
        theirs = self.device.stream
        latest = self._latest
        if latest is None or latest[0] is not theirs:
            handle = theirs.__cuda_stream__()[1]
            ours = self._backend.Stream.from_handle(handle, device=self.device.ordinal, owner=theirs)
            latest = self._latest = (theirs, ours)
        return latest[1]

    def __repr__(self) -> str:
        taken = "the current resource" if self._resource is None else repr(self._resource)
        return f"<portamem's allocator for Warp's {self.device}: {taken}>"
