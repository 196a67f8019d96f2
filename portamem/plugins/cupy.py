# SPDX-License-Identifier: MIT
"""CuPy takes its memory from a portamem resource, on CUDA and on ROCm.

Device memory is allocated on CuPy's current stream, by C functions, and goes back to its resource behind the work of
that stream. On ROCm it is the only stream-ordered allocator that CuPy has.
"""

from __future__ import annotations

import ctypes
from typing import Any

from portamem import errors
from portamem.plugins import _hooks, _plug
from portamem.plugins._plug import Plug

__all__ = ["use", "use_pinned"]

_LEAST = "14.0"
_CURRENT_STREAM = "intptr_t (void)"  # how Cython writes the signature of get_current_stream_ptr


def use(resource: Any = None) -> Plug:
    """Has CuPy take device memory from a resource, on all threads.

    Without a resource, each allocation takes the current one of CuPy's current device. A resource serves the device
    that it is of, and other devices are served as without one. The resource is kept for the rest of the process.

    Where there is no memory, CuPy's calls raise an error that is portamem.OutOfMemoryError and CuPy's own
    cupy.cuda.memory.OutOfMemoryError at once.

    Arrays that CuPy made before keep their memory. CuPy's own pool keeps what it has cached until
    ``cupy.get_default_memory_pool().free_all_blocks()``. The functions of that pool, such as ``used_bytes``, do not
    count the resource's memory; the resource's own ``live_bytes`` does.

    Raises TypeError and ValueError for what CuPy cannot be given (no resource of portamem, a closed one, one of
    another backend, one that is not stream-ordered), ImportError where CuPy is absent or too old, and RuntimeError
    where CuPy's current stream cannot be asked.
    """
    cupy, backend = library()
    _plug.checked(resource, "CuPy", backend)
    made = _allocator(cupy, backend, resource)

    def take_out() -> None:
        if cupy.cuda.get_allocator() != made:
            raise RuntimeError("CuPy has been given another allocator since: take that one out first")
        cupy.cuda.set_allocator(former)

    with _plug.changing("cupy"):
        former = cupy.cuda.get_allocator()
        cupy.cuda.set_allocator(made)
        return Plug("cupy", resource, take_out)


def use_pinned(resource: Any) -> Plug:
    """Has CuPy take pinned host memory from a resource, on all threads: for ``cupyx.empty_pinned`` and CuPy's copies.

    The memory must be the host's; a pool over PinnedMemoryResource is the usual choice. CuPy itself keeps such memory
    until a copy that uses it has run. ``undo()`` gives CuPy its default pool of pinned memory back. Raises as ``use``
    does.
    """
    cupy, backend = library()
    _plug.checked_memory(resource, "CuPy", backend)
    if not resource.is_host_accessible:
        raise ValueError(f"the host does not reach memory of kind {resource.kind}, and CuPy asks here for the host's")
    stream = resource.device.default_stream

    def allocate(nbytes: int) -> Any:
        return cupy.cuda.PinnedMemoryPointer(_PinnedMemory(resource.allocate(nbytes, stream=stream)), 0)

    with _plug.changing("cupy pinned memory"):
        cupy.cuda.set_pinned_memory_allocator(allocate)
        return Plug(
            "cupy pinned memory",
            resource,
            lambda: cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc),
        )


class _PinnedMemory:
    """Memory as CuPy's pointers to pinned memory want it: it goes back with its last pointer."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self.ptr = buffer.handle
        self.size = buffer.nbytes


def library() -> tuple[Any, str]:
    """CuPy, and the backend that it is built for. Raises ImportError where CuPy is absent or too old."""
    cupy = _plug.library("cupy", "CuPy (cupy-cuda12x, cupy-cuda13x, cupy-rocm-7-0)", _LEAST)
    return cupy, "hip" if cupy.cuda.runtime.is_hip else "cuda"


def _allocator(cupy: Any, backend: str, resource: Any) -> Any:
    """A CuPy allocator over C functions of the resource."""
    addresses = _hooks.functions(
        "cupy", backend, resource, _current_stream(), lambda: _current_owner(cupy), _out_of_memory(cupy)
    )
    allocator = cupy.cuda.memory.CFunctionAllocator(
        addresses["hook"], addresses["allocate"], addresses["deallocate"], resource
    )
    return allocator.malloc


def _current_stream() -> int:
    """The address of CuPy's C function that says which stream is current."""
    module = _plug.library("cupy_backends.cuda.stream", "CuPy", "0")
    capsule = getattr(module, "__pyx_capi__", {}).get("get_current_stream_ptr")
    if capsule is None or _CURRENT_STREAM not in repr(capsule):
        raise RuntimeError("this version of CuPy does not say its current stream to C: tell portamem's authors which")
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer_of(capsule, _CURRENT_STREAM.encode()))


def _current_owner(cupy: Any) -> Any:
    """CuPy's object for its current stream; None where the program owns the stream, and may destroy it at any time."""
    stream = cupy.cuda.get_current_stream()
    return None if isinstance(stream, cupy.cuda.ExternalStream) else stream


_error_class: type[Exception] | None = None


def _out_of_memory(cupy: Any) -> type[Exception]:
    """The class that is portamem's error for no memory and CuPy's."""
    global _error_class
    if _error_class is None:
        both = (errors.OutOfMemoryError, cupy.cuda.memory.OutOfMemoryError)
        _error_class = type("OutOfMemoryError", both, {"__module__": __name__, "__doc__": "No memory, asked by CuPy."})
    return _error_class
