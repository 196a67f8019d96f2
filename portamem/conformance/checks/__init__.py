# SPDX-License-Identifier: MIT
"""Checks of the clauses: each group of the contract has a file of its name, and others that begin with it.

``kernels_see`` is about several groups: what a kernel finds in memory.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from portamem.conformance.kit.check import CHECKS, Check


def checks() -> list[Check]:
    """Every check of every file here, and those that a plugin has registered."""
    _load()
    return CHECKS


@cache
def _load() -> None:
    """Imports every file here, once: to look for them takes milliseconds, and a run asks hundreds of times."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
