"""The kinds of memory resources of the runtime, which are the conformance suite's: one that is registered there is
tested here too. What stands over them is the suite's to test."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from portamem.conformance.kit import kinds

__all__ = ["KINDS", "make"]

KINDS = {kind.name: kind for kind in kinds.selected("every resource of the runtime")}


def make(name: str, pm: ModuleType, device: Any) -> Any:
    """A resource of a kind; a skip where the device has no such memory."""
    kind = kinds.KINDS[name]
    if not kind.needs(device.capabilities):
        pytest.skip(f"{device!r} has no memory of kind {kind.name}")
    return kind.make(pm, device)
