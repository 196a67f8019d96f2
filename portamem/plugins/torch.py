# SPDX-License-Identifier: MIT
"""PyTorch takes its memory from a portamem resource, on CUDA and on ROCm.

There are two ways. ``use`` puts a ``torch.cuda.MemPool`` over the resource: PyTorch keeps its own cache, statistics
and graphs, and asks the resource for segments. It is the recommended one, and can be undone. ``replace_allocator``
puts the resource in the place of PyTorch's allocator for the whole process, so that each tensor is the resource's.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from contextlib import ExitStack
from typing import Any

from portamem.plugins import _hooks, _plug
from portamem.plugins._plug import Plug

__all__ = ["allocator", "mem_pool", "process_allocator", "replace_allocator", "use"]

_LEAST = "2.8"

_lock = threading.Lock()
_allocators: dict[tuple[int | None, str], Any] = {}
_pools: dict[tuple[int | None, int], Any] = {}


def use(resource: Any = None, *, device: Any = None) -> Plug:
    """Has PyTorch take the calling thread's tensors of a device from a resource, until ``undo()`` on the same thread.

    It is ``torch.cuda.use_mem_pool(mem_pool(resource), device)``. Without ``device``, the device is the resource's,
    or else PyTorch's current one. Tensors that live on afterwards keep their memory. PyTorch gives cached segments
    back to the resource at ``torch.cuda.empty_cache()``.

    Raises TypeError and ValueError for what PyTorch cannot be given (no resource of portamem, a closed one, one of
    another backend or device, one that is not stream-ordered), ImportError where PyTorch is absent or too old, and
    RuntimeError where this PyTorch sees no GPU.
    """
    torch = _torch()
    _plug.checked(resource, "PyTorch", _backend(torch))
    ordinal = resource.device.ordinal if device is None and resource is not None else _ordinal(torch, device)
    if resource is not None and ordinal != resource.device.ordinal:
        raise ValueError(f"the resource is of device {resource.device.ordinal}, not of device {ordinal}")
    with torch.cuda.device(ordinal):
        pool = mem_pool(resource)
    scopes = ExitStack()
    with _plug.changing("torch"):
        scopes.enter_context(torch.cuda.use_mem_pool(pool, ordinal))
        return Plug("torch", resource, scopes.close)


def mem_pool(resource: Any = None) -> Any:
    """A ``torch.cuda.MemPool`` over a resource: the same one for the same resource and current device.

    It stays until the process ends, and so does the resource: PyTorch may give a segment back at any later time. For
    no memory, PyTorch gives back what it has cached, asks again, and raises its own ``torch.OutOfMemoryError``. Raises
    as ``use`` does.
    """
    torch = _torch()
    made = allocator(resource)
    key = (None if resource is None else id(resource), torch.cuda.current_device())
    with _lock:
        if not _pools:
            atexit.register(_drop_pools)  # before the modules go: PyTorch frees with what they hold
        if key not in _pools:
            _pools[key] = torch.cuda.MemPool(made.allocator())
        return _pools[key]


def allocator(resource: Any = None) -> Any:
    """An allocator object of PyTorch over a resource, for a ``torch.cuda.MemPool`` that a program makes itself.

    The pool takes ``allocator(resource).allocator()``. Raises as ``use`` does.
    """
    return _allocator(resource, "allocate_or_null")


def replace_allocator(resource: Any = None) -> None:
    """Puts a resource in the place of PyTorch's allocator, for all threads and the rest of the process.

    Without a resource, each tensor takes the current one of its device. Each tensor is then an allocation of its own:
    ``record_stream``, ``torch.cuda.empty_cache`` (the pool's ``trim``), ``set_per_process_memory_fraction`` (the
    pool's limit) and graphs work; ``torch.cuda.memory_stats`` and snapshots are not supported by PyTorch for an
    allocator of others. No memory is ``torch.OutOfMemoryError``.

    PyTorch has no way to undo it. Raises RuntimeError where PyTorch has allocated before, or an allocator was replaced
    before, and as ``use`` does.
    """
    torch = _torch()
    made = process_allocator(resource)
    try:
        torch.cuda.memory.change_current_allocator(made)
    except RuntimeError as refused:
        raise RuntimeError(
            "PyTorch has an allocator in use already, and takes no other one: call replace_allocator before the first "
            "use of torch.cuda, and once in a process; portamem.plugins.torch.use works at any time"
        ) from refused


def process_allocator(resource: Any = None) -> Any:
    """An allocator object of PyTorch over a resource, for ``torch.cuda.memory.change_current_allocator``.

    It is what ``replace_allocator`` puts in: its functions throw PyTorch's own error for no memory. Raises as ``use``
    does.
    """
    return _allocator(resource, "allocate_or_throw")


def _torch() -> Any:
    torch = _plug.library("torch", "PyTorch", _LEAST)
    if not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU: install one that is built for CUDA or ROCm")
    return torch


def _ordinal(torch: Any, device: Any) -> int:
    """The ordinal of a device as PyTorch's users give it; without a number it is PyTorch's current one."""
    index = device if isinstance(device, int) or device is None else torch.device(device).index
    return int(torch.cuda.current_device() if index is None else index)


def backend() -> str:
    """The backend that PyTorch is built for. Raises ImportError and RuntimeError as ``use`` does."""
    return _backend(_torch())


def _backend(torch: Any) -> str:
    return "hip" if torch.version.hip else "cuda"


def _allocator(resource: Any, allocate: str) -> Any:
    torch = _torch()
    backend = _backend(torch)
    _plug.checked(resource, "PyTorch", backend)
    key = (None if resource is None else id(resource), allocate)
    addresses = _hooks.functions("torch", backend, resource)
    with _lock:
        if key not in _allocators:
            made = torch._C._cuda_customAllocator(addresses[allocate], addresses["deallocate"])
            made.set_record_stream_fn(addresses["record_stream"])
            made.set_reset_fn(addresses["empty_cache"])
            made.set_memory_fraction_fn(addresses["set_fraction"])
            made.set_begin_allocate_to_pool(addresses["begin_pool"])
            made.set_end_allocate_to_pool_fn(addresses["end_pool"])
            made.set_release_pool(addresses["release_pool"])
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # PyTorch keeps its bare address
            _allocators[key] = torch.cuda.memory._CUDAAllocator(made)
        return _allocators[key]


def _drop_pools() -> None:
    _pools.clear()
