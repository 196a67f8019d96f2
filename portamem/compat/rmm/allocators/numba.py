# SPDX-License-Identifier: MIT
"""RMM's memory manager for Numba: ``numba.cuda.set_memory_manager(RMMNumbaManager)``.

``NUMBA_CUDA_MEMORY_MANAGER=portamem.compat.rmm.allocators.numba`` has the same effect.
"""

from __future__ import annotations

from typing import Any

from portamem.compat.rmm.allocators._backend import check
from portamem.plugins import numba as plug

__all__ = ["RMMNumbaManager", "_numba_memory_manager"]

RMMNumbaManager: type  # made by __getattr__: its base classes are Numba's, which is imported at first use
"""The class of Numba's memory managers over the current resource."""


def _numba_memory_manager(context: Any = None) -> Any:
    """Stands for the class where NUMBA_CUDA_MEMORY_MANAGER names this module. Raises RuntimeError where portamem
    allocates from another backend than CUDA."""
    check("Numba", "cuda")
    return plug._numba_memory_manager(context)


def __getattr__(name: str) -> Any:
    if name != "RMMNumbaManager":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = plug.manager()
    check("Numba", "cuda")
    return made
