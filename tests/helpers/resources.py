"""The kinds of memory resources, which are the conformance suite's: one that is registered there is tested here too."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from portamem.conformance.kinds import KINDS

__all__ = ["KINDS", "make"]


def make(name: str, pm: ModuleType, device: Any) -> Any:
    """A resource of a kind; a skip where the device has no such memory."""
    kind = KINDS[name]
    if not kind.needs(device.capabilities):
        pytest.skip(f"{device!r} has no memory of kind {kind.name}")
    return kind.make(pm, device)
