"""Page-locked host memory: what is no promise of the contract."""

from __future__ import annotations

from typing import Any


def test_it_is_aligned(pinned_resource: Any) -> None:
    """It is not aligned to pages: CUDA puts several small pieces into one."""
    with pinned_resource.allocate(100) as first, pinned_resource.allocate(100) as second:
        assert first.handle % 256 == second.handle % 256 == 0
