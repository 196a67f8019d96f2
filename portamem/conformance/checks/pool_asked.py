# SPDX-License-Identifier: MIT
"""Shows what pools say of themselves: figures, peaks, snapshots; and that a release policy is asked and obeyed."""

from __future__ import annotations

import json
import random
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB
from portamem.conformance.kit.pooled import pool_like

FIGURES = (
    *("used", "reserved", "peak", "largest_free", "free_blocks", "fragmentation"),
    *("hits", "misses", "steals", "releases"),
)


@check("POOL-38")
def figures_fit(env: Env, resource: Any) -> None:
    streams, chance = [env.stream() for _ in range(3)], random.Random(3)
    live: list[Any] = []
    allocations, most = 0, 0
    for turn in range(400):
        if live and chance.random() < 0.45:
            live.pop(chance.randrange(len(live))).close()
        else:
            nbytes = int(2 ** (8 + 12 * chance.random()))
            live.append(resource.allocate(nbytes, stream=chance.choice(streams)))
            allocations += 1
        if turn % 20 == 0:
            _fits(resource)
        most = max(most, resource.stats().reserved)
    stats = _fits(resource)
    expect_equal(stats.hits + stats.misses, allocations, "hits and misses, of all allocations")
    expect(stats.peak >= most, f"peak is {stats.peak}, and {most} were reserved at a time")
    for buf in live:
        buf.close()
    expect_equal(_fits(resource).used, 0, "used with nothing out")
    for stream in streams:
        stream.synchronize()
    resource.reset_peak()
    expect_equal(resource.stats().peak, resource.stats().reserved, "peak after a reset")
    with resource.allocate(NBYTES, stream=streams[0]) as buf:
        buf.fill(3)
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "memory after a reset")
        expect(
            resource.stats().peak >= resource.stats().reserved >= NBYTES, f"{resource.stats()} with {NBYTES} bytes out"
        )


def _fits(pool: Any) -> Any:
    """The figures, which have to fit each other and what is known otherwise."""
    stats = pool.stats()
    told = {name: getattr(stats, name) for name in FIGURES}
    expect(all(value >= 0 for value in told.values()), f"a figure is negative: {told}")
    expect_equal(stats.used, pool.live_bytes, "used bytes, and the live ones")
    expect(stats.used <= stats.reserved, f"more is used than reserved: {told}")
    expect(stats.largest_free <= stats.reserved - stats.used, f"the largest free block is more than is free: {told}")
    expect((stats.free_blocks > 0) == (stats.reserved > stats.used), f"free blocks, and what is free: {told}")
    expect(0 <= stats.fragmentation <= 1, f"fragmentation is a part of the whole: {told}")
    expect(stats.reserved <= stats.peak, f"more is reserved than ever was: {told}")
    expect_equal(pool.upstream.live_bytes, stats.reserved, "bytes that the pool has of its upstream")
    return stats


@check("POOL-39")
def a_snapshot(env: Env, resource: Any) -> None:
    stream = env.stream()
    kept = [resource.allocate(nbytes, stream=stream) for nbytes in (100, 5000, MIB, 3 * MIB)]
    for buf in [resource.allocate(nbytes, stream=stream) for nbytes in (300, 64 * KIB, 2 * MIB)]:
        buf.close()
    stats, snapshot = resource.stats(), resource.snapshot()
    chunks = snapshot["chunks"]
    expect_equal(sum(chunk["nbytes"] for chunk in chunks), stats.reserved, "bytes of all chunks")
    used: list[tuple[int, int]] = []
    for chunk in chunks:
        end = chunk["address"]
        for piece in chunk["pieces"]:
            expect_equal(piece["address"], end, "where a piece begins: behind the one before")
            expect(piece["state"] in ("free", "cached", "live", "slab"), f"a piece's state is {piece['state']!r}")
            end = piece["address"] + piece["nbytes"]
            if piece["state"] in ("live", "slab"):
                used.append((piece["address"], end))
        expect_equal(end, chunk["address"] + chunk["nbytes"], "where the last piece of a chunk ends")
    expect(stats.used <= sum(end - start for start, end in used) <= stats.reserved, f"used pieces {used}, and {stats}")
    for buf in kept:
        found = any(start <= buf.handle and buf.handle + buf.nbytes <= end for start, end in used)
        expect(found, f"a live buffer of {buf.nbytes} bytes is in no used piece")
    expect_equal(json.loads(json.dumps(snapshot)), snapshot, "the snapshot, by way of JSON")
    for buf in kept:
        buf.close()


@check("POOL-40")
def a_policy_is_asked(env: Env, resource: Any) -> None:
    stream, told = env.stream(), []

    def keep_a_megabyte(*figures: Any) -> int:
        told.append(figures)
        return MIB

    with pool_like(env, resource, release=keep_a_megabyte) as pool:
        for _ in range(3):
            buffers = [pool.allocate(8 * MIB, stream=stream) for _ in range(4)]
            for buf in buffers:
                buf.fill(1, stream=stream)
                buf.close()
            stream.synchronize()
            pool.allocate(64 * MIB, stream=stream).close()
        expect(told, "the user's function was never asked")
        pool.allocate(72 * MIB, stream=stream).close()  # more than a thread's cache takes: the function is asked
        # The pool has to do it without a call.
        expect(eventually(lambda: pool.stats().reserved <= MIB), f"{pool.stats()}, and 1 MiB is to be kept")
        with pool.allocate(NBYTES, stream=stream) as buf:
            buf.fill(2)
            expect_bytes(env.read(buf), b"\x02" * NBYTES, "memory of a pool with a policy")


@check("POOL-40")
def a_share_of_the_peak_is_kept(env: Env, resource: Any) -> None:
    stream = env.stream()
    with pool_like(env, resource, release=0.25) as pool:
        buffers = [pool.allocate(72 * MIB, stream=stream) for _ in range(3)]
        for value, buf in enumerate(buffers):
            buf.fill(value, stream=stream)
        peak = pool.stats().peak
        with env.latch(stream):
            for buf in buffers:
                buf.close()
            expect_equal(pool.stats().reserved, peak, "reserved bytes while a latch holds their last use")
        stream.synchronize()
        # The pool has to do it without a call.
        expect(eventually(lambda: pool.stats().reserved <= peak // 4), f"{pool.stats()} after a peak of {peak} bytes")
        with pool.allocate(NBYTES, stream=stream) as buf:
            buf.fill(2)
            expect_bytes(env.read(buf), b"\x02" * NBYTES, "memory of a pool with a policy")


@check("POOL-40")
def policies_that_are_none(env: Env, resource: Any) -> None:
    below = env.kind_of(resource).upstream
    upstream = below.make(env.pm, env.device) if below else None
    for wrong in (-0.5, 1.5):
        with refused(ValueError):
            env.pm.PoolMemoryResource(upstream, release=wrong)
    with refused(TypeError):
        env.pm.PoolMemoryResource(upstream, release="often")
