"""Host access and stream order: the rest of what streams promise about memory is in the conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_host_access_is_not_stream_ordered(
    pm: ModuleType, stream: Any, latch: Callable[[Any], Latch], make_resource: Callable[[str], Any], kind: str
) -> None:
    """A Python buffer waits for declared work once, when it is taken. From then on the caller orders host access."""
    with make_resource(kind).allocate(4096) as buf:
        if kind == "managed" and not buf.device.capabilities.concurrent_managed_access:
            pytest.skip("the host may not touch managed memory while the device is busy")
        buf.fill(0)
        with memoryview(buf) as seen:
            held = latch(stream)
            buf.fill(1, stream=stream)
            assert bytes(seen) == bytes(4096)
            held.release_soon()
            with memoryview(buf) as later:
                assert bytes(later) == b"\x01" * 4096
