"""Streams and events as Python objects. What they promise is in the conformance suite."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


@pytest.mark.parametrize("make", ["Stream", "Event"])
def test_what_is_closed_says_so(pm: ModuleType, device: Any, make: str) -> None:
    made = getattr(pm, make)(device)
    assert str(made.handle) in repr(made)
    assert f"portamem.{pm.backend}.{make}" in repr(made)
    made.close()
    assert "closed" in repr(made)
