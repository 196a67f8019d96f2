# SPDX-License-Identifier: MIT
"""Shows the clause of memory that a pool gives another size where it lies."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.pooled import pool_like


@check("POOL-54")
def memory_stays_where_there_is_room(env: Env, resource: Any) -> None:
    stream = env.stream()
    with pool_like(env, resource, initial_size=16 * MIB) as pool:
        buf = pool.allocate(MIB, stream=stream)
        env.write(buf, pattern(MIB))
        address = buf.handle
        for nbytes in (MIB + 100, 2 * MIB, 5 * MIB, 5 * MIB - 100):
            buf.reallocate(nbytes)
            expect(pool.is_checked or buf.handle == address, "the memory has moved, with room behind it")
            expect_equal(buf.nbytes, nbytes, "the size")
            expect_equal((pool.live_buffers, pool.live_bytes, pool.stats().used), (1, nbytes, nbytes), "figures")
            expect_bytes(env.read(buf)[:MIB], pattern(MIB), "the memory")
        with pool.allocate(MIB, stream=stream) as beside:
            env.write(beside, pattern(MIB, 2))
            buf.reallocate(8 * MIB)
            expect_bytes(env.read(buf)[:MIB], pattern(MIB), "the memory, which moved or not")
            buf.fill(0xEE)
            expect_bytes(env.read(beside), pattern(MIB, 2), "what may lie behind it")
        buf.close()
        expect_equal(pool.live_bytes, 0, "bytes that are out in the end")
        stream.synchronize()
        pool.trim()
        expect_equal(pool.stats().reserved, 0, "reserved after a trim")


@check("POOL-54")
def another_streams_memory_is_no_room(env: Env, resource: Any) -> None:
    env.need(not resource.is_host_accessible, "memory that devices alone reach")  # other memory waits for events
    stream, other = env.stream(), env.stream()
    with pool_like(env, resource, initial_size=16 * MIB) as pool:
        buf = pool.allocate(MIB, stream=stream)
        behind = pool.allocate(14 * MIB, stream=other)
        env.write(buf, pattern(MIB))
        with env.latch(other):
            behind.fill(0xEE, stream=other)
            behind.close()
            buf.reallocate(2 * MIB)
            buf.view("uint8", shape=(MIB,), offset=MIB).fill(0x11, stream=stream)
        other.synchronize()
        stream.synchronize()
        expect_bytes(env.read(buf), pattern(MIB) + b"\x11" * MIB, "the memory, beside another stream's work")
        buf.close()


@check("POOL-54")
def memory_of_two_streams_moves(env: Env, resource: Any) -> None:
    stream, other = env.stream(), env.stream()
    with pool_like(env, resource, initial_size=16 * MIB) as pool:
        buf = pool.allocate(MIB, stream=stream)
        env.write(buf, pattern(MIB))
        address = buf.handle
        buf.record_stream(other)
        buf.reallocate(2 * MIB)
        expect(buf.handle != address, "memory that two streams use has grown where it lies")
        expect_bytes(env.read(buf)[:MIB], pattern(MIB), "the memory")
        buf.close()
