# SPDX-License-Identifier: MIT
"""The bytes that a resource says it holds while no buffer uses them."""

from __future__ import annotations

from typing import Any

from helpers.memory import KIB


def test_what_is_carved_is_told_in_bytes(pm: Any, pinned_resource: Any) -> None:
    arena = pm.MonotonicMemoryResource(pinned_resource, initial_size="64 KiB")
    assert arena.cached == 0
    with arena.allocate(1000):
        assert arena.cached == 64 * KIB - 1000
    arena.release()
    blocks = pm.FixedSizeMemoryResource(pinned_resource, "4 KiB", blocks_per_chunk=4)
    with blocks.allocate(1):
        assert blocks.cached == 3 * 4 * KIB
    blocks.close()


def test_a_pools_is_an_adaptors_too(pm: Any, device: Any) -> None:
    with pm.PoolMemoryResource(device=device) as pool, pm.LimitingAdaptor(pool, "1 GiB") as limited:
        with limited.allocate(300, stream=device.default_stream):
            stats = pool.stats()
            assert limited.cached == pool.cached == stats.reserved - stats.used
        device.default_stream.synchronize()


def test_plain_memory_has_none(pm: Any, pinned_resource: Any) -> None:
    assert pinned_resource.cached is None
    assert pm.StatisticsAdaptor(pinned_resource).cached is None
