# SPDX-License-Identifier: MIT
"""tvm-ffi's kernel libraries take the tensors that they make from a portamem resource."""

from __future__ import annotations

import ctypes
from typing import Any

from portamem import _choice
from portamem.plugins import _hooks, _plug
from portamem.plugins._plug import Plug

__all__ = ["use"]

_LEAST = "0.1.5"


def use(resource: Any = None) -> Plug:
    """Has functions of tvm-ffi allocate from a resource, on all threads, on tvm-ffi's current stream.

    A resource serves the device that it is of, and the CPU where the host reaches its memory. Without one, and for
    other devices, each allocation takes the current resource of its device; the CPU's memory is the C library's then.
    A function that is called with tensors of a library whose class has DLPack's exchange table allocates from that
    library instead, as tvm-ffi has it.

    Raises TypeError and ValueError for what is no open, stream-ordered resource of portamem, and ImportError where
    tvm-ffi is absent or too old.
    """
    tvm_ffi = _plug.library("tvm_ffi", "apache-tvm-ffi", _LEAST)
    library = tvm_ffi.LIB
    given = _plug.checked(resource, "tvm-ffi", "cuda", "hip", "host")
    backend = (_choice.chosen() if given is None else given).backend
    stream_of = ctypes.cast(library.TVMFFIEnvGetStream, ctypes.c_void_p).value
    made = _hooks.functions("tvm_ffi", backend, resource, stream_of)["allocate"]

    def take_out() -> None:
        if _current(library) != made:
            raise RuntimeError("tvm-ffi has been given another allocator since: take that one out first")
        _set(library, former)

    with _plug.changing("tvm_ffi"):
        former = _set(library, made)
        return Plug("tvm_ffi", resource, take_out)


def _set(library: Any, address: int | None) -> int | None:
    former = _current(library)
    everywhere = 1
    failed = library.TVMFFIEnvSetDLPackManagedTensorAllocator(
        ctypes.c_void_p(address), ctypes.c_int(everywhere), ctypes.c_void_p(None)
    )
    if failed:
        raise RuntimeError("tvm-ffi has refused the allocator")
    return former


def _current(library: Any) -> int | None:
    ask = library.TVMFFIEnvGetDLPackManagedTensorAllocator
    ask.restype = ctypes.c_void_p
    found: int | None = ask()
    return found
