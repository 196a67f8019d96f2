# SPDX-License-Identifier: MIT
"""RMM's allocator for PyTorch: ``torch.cuda.memory.change_current_allocator(rmm_torch_allocator)``."""

from __future__ import annotations

import importlib.util
from typing import Any

from portamem.compat.rmm.allocators._backend import check
from portamem.plugins import torch as plug

__all__ = ["rmm_torch_allocator"]


class _Allocator:
    """Stands for an allocator object of PyTorch, which is made when PyTorch asks for it."""

    def allocator(self) -> Any:
        """PyTorch's own object over C functions of the current resource.

        Raises ImportError where PyTorch is too old, and RuntimeError where it sees no GPU, or where it is built for
        another backend than the one that portamem allocates from.
        """
        check("PyTorch", plug.backend())
        return plug.process_allocator().allocator()


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:  # a module that a program put in its place
        return True


rmm_torch_allocator = _Allocator() if _is_installed() else None
"""The current resource of the device and thread that allocate, for all of PyTorch. None without PyTorch."""
