# SPDX-License-Identifier: MIT
"""RMM's allocator for CuPy: ``cupy.cuda.set_allocator(rmm_cupy_allocator)``."""

from __future__ import annotations

import functools
from typing import Any

import portamem
from portamem.compat.rmm.allocators._backend import check
from portamem.compat.rmm.pylibrmm.device_buffer import DeviceBuffer
from portamem.compat.rmm.pylibrmm.stream import Stream
from portamem.plugins import cupy as plug

__all__ = ["rmm_cupy_allocator"]


def rmm_cupy_allocator(nbytes: int) -> Any:
    """Device memory of the current resource as CuPy's pointer, which owns a DeviceBuffer on CuPy's current stream.

    Each call and each free runs Python. ``portamem.plugins.cupy.use()`` takes the same memory by C functions. Raises
    MemoryError where there is no memory, ImportError where CuPy is absent or too old, and RuntimeError where CuPy is
    built for another backend than the one that portamem allocates from.
    """
    cupy = _cupy()
    stream = cupy.cuda.get_current_stream()
    if isinstance(stream, cupy.cuda.ExternalStream):  # the program owns it, and may destroy it before the memory goes
        stream = portamem.Stream.from_handle(stream.ptr)
    buffer = DeviceBuffer(size=nbytes, stream=Stream(stream))
    memory = cupy.cuda.UnownedMemory(buffer.ptr, buffer.size, buffer, cupy.cuda.Device().id)
    return cupy.cuda.MemoryPointer(memory, 0)


@functools.cache
def _cupy() -> Any:
    cupy, wanted = plug.library()
    check("CuPy", wanted)
    return cupy
