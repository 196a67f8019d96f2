# SPDX-License-Identifier: MIT
"""The kernels by module: the types of their parameters, and launches of all of them that do nothing of note."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portamem.conformance.witness.base import Witness

Parameters = tuple[type[ctypes.c_void_p] | type[ctypes.c_uint64] | type[ctypes.c_uint32], ...]

POINTER, COUNT, WORD = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32

KERNELS: dict[str, dict[str, Parameters]] = {
    "memory": {
        "fill": (POINTER, COUNT, WORD),
        "verify": (POINTER, COUNT, WORD, POINTER),
        "verify_value": (POINTER, COUNT, WORD, POINTER),
        "copy": (POINTER, POINTER, COUNT),
        "latch": (POINTER, COUNT),
    },
    "heap": {
        "heap_per_thread": (COUNT, COUNT, WORD, POINTER),
        "heap_per_block": (COUNT, COUNT, WORD, POINTER),
        "heap_memcpy_memset": (COUNT, POINTER, POINTER, WORD, POINTER),
        "heap_keep": (POINTER, COUNT, COUNT, WORD, POINTER),
        "heap_use": (POINTER, COUNT, WORD, WORD, POINTER),
        "heap_release": (POINTER,),
    },
}
"""Kernels of kernels/memory.cu and kernels/heap.cu. Loading the second settles the size of the device's heap."""


def module_of(kernel: str) -> str:
    return next(module for module, kernels in KERNELS.items() if kernel in kernels)


def warm_up(witness: Witness, module: str) -> None:
    """Runs every kernel of a module once: drivers load lazily, and could do so only after a latch that is held."""
    if module == "memory":
        words = witness.host_malloc(16)
        try:
            ctypes.memset(words, 1, 16)  # a latch that is open
            for name, types in KERNELS[module].items():
                witness.launch(name, 0, 1, 1, *(words if name == "latch" and kind is POINTER else 0 for kind in types))
            witness.synchronize()
        finally:
            witness.host_free(words)
        return
    scratch = witness.malloc(96)
    try:
        witness.write(scratch, bytes(96))
        table, report, source, target = (scratch + offset for offset in (0, 16, 48, 64))
        witness.launch("heap_per_thread", 0, 1, 1, 16, 0, 0, report)
        witness.launch("heap_per_block", 0, 1, 1, 16, 0, 0, report)
        witness.launch("heap_memcpy_memset", 0, 1, 1, 16, source, target, 0, report)
        witness.launch("heap_keep", 0, 1, 1, table, 16, 0, 0, report)
        witness.launch("heap_use", 0, 1, 1, table, 16, 0, 0, report)
        witness.launch("heap_release", 0, 1, 1, table)
        witness.synchronize()
    finally:
        witness.free(scratch)
