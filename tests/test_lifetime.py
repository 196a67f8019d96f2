"""Memory in use by a stream: kept alive by copies, given back in order, never handed out too early."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.latch import Latch

NBYTES = 64 << 10


def test_without_reuse_policies_streams_share_nothing_unfinished(
    stream: Any, other_stream: Any, latch: Callable[[Any], Latch], pool: Any
) -> None:
    pool.reuse_follow_event_dependencies = False
    pool.reuse_allow_opportunistic = False
    pool.reuse_allow_internal_dependencies = False
    first = pool.allocate(NBYTES, stream=stream)
    address = first.handle
    held = latch(stream)
    first.close(stream=stream)
    with pool.allocate(NBYTES, stream=other_stream) as second:
        assert second.handle != address
        held.release()
        stream.synchronize()


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
