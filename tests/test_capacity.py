"""Out of memory: an exception with the figures, and everything works again after a free."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, allocate, read_back

import portamem

TOO_MUCH = 2**50


@pytest.mark.parametrize("kind", ["device", "managed", "async", "async-default_pool", "pinned", "system"])
def test_out_of_memory_and_then_success(pm: ModuleType, make_resource: Callable[[str], Any], kind: str) -> None:
    resource = make_resource(kind)
    with pytest.raises(portamem.OutOfMemoryError) as caught:
        allocate(resource, TOO_MUCH)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.asked == TOO_MUCH
    assert caught.value.backend == pm.backend
    assert (resource.live_buffers, resource.live_bytes) == (0, 0)
    with allocate(resource, MIB) as buf:
        buf.fill(1)
        assert read_back(pm, buf) == b"\x01" * MIB
