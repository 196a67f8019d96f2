# SPDX-License-Identifier: MIT
"""Modules of others that a program has imported. portamem imports none of them to ask what an object is."""

from __future__ import annotations

import sys
from types import ModuleType


def imported(name: str) -> ModuleType | None:
    """A module that has been imported to its end.

    None also while another thread still imports it: it lacks names until then, and no object of it exists yet.
    """
    module = sys.modules.get(name)
    if getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module
