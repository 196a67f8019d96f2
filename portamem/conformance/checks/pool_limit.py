# SPDX-License-Identifier: MIT
"""Shows the clauses of a pool's limit that changes, and of its initial size."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import MIB, pattern
from portamem.errors import OutOfMemoryError


@check("POOL-50")
def a_limit_that_changes(env: Env, resource: Any) -> None:
    stream = env.stream()
    expect_equal(resource.limit, None, "the limit of a pool without one")
    buf = resource.allocate(16 * MIB, stream=stream)
    env.write(buf, pattern(16 * MIB))
    resource.limit = "20 MiB"
    expect_equal(resource.limit, 20 * MIB, "the limit that was set")
    with refused(OutOfMemoryError, saying="limit of 20971520 bytes"):
        resource.allocate(16 * MIB, stream=stream)
    resource.limit = 64 * MIB
    with resource.allocate(16 * MIB, stream=stream) as second:
        env.write(second, pattern(16 * MIB, 2))
        resource.limit = 8 * MIB
        expect_bytes(env.read(buf), pattern(16 * MIB), "memory that is out, of a pool with a lower limit")
        with refused(OutOfMemoryError, saying="limit of 8388608 bytes"):
            resource.allocate(16 * MIB, stream=stream)
        expect_bytes(env.read(second), pattern(16 * MIB, 2), "memory that is out, after a refusal")
    buf.close()
    stream.synchronize()
    resource.trim(resource.limit)
    expect(resource.stats().reserved <= 8 * MIB, "a pool has kept more than its limit after trim")
    resource.limit = None
    expect_equal(resource.limit, None, "a limit that was taken away")
    resource.allocate(16 * MIB, stream=stream).close()


@check("POOL-50")
def what_is_no_limit(env: Env, resource: Any) -> None:
    resource.limit = 32 * MIB
    for wrong in (0, -1, "0%", "101%", "many", "0 B"):
        with refused(ValueError):
            resource.limit = wrong
    for odd in (1.5, True, b"1"):
        with refused(TypeError):
            resource.limit = odd
    expect_equal(resource.limit, 32 * MIB, "the limit after refused ones")


@check("POOL-50")
def a_limit_as_a_share(env: Env) -> None:
    total = env.device.memory_info().total
    with env.pm.PoolMemoryResource(env.resource("device"), limit="12.5 %") as pool:
        expect_equal(pool.limit, total // 8, "an eighth of the device")
        pool.limit = "50%"
        expect_equal(pool.limit, total // 2, "half of the device")
    with env.pm.PoolMemoryResource(env.resource("pinned")) as pool, refused(ValueError, saying="percentage"):
        pool.limit = "50%"


@check("POOL-51")
def an_initial_size(env: Env, resource: Any) -> None:
    for stream in (env.device.default_stream, env.stream()):
        with env.pm.PoolMemoryResource(resource.upstream, initial_size="48 MiB") as pool:
            reserved = pool.stats().reserved
            expect(48 * MIB <= reserved <= 56 * MIB, f"a pool with an initial size of 48 MiB has reserved {reserved}")
            expect_equal((pool.live_buffers, pool.stats().used), (0, 0), "buffers and bytes of a new pool")
            with pool.allocate(40 * MIB, stream=stream) as buf:
                env.write(buf, pattern(40 * MIB))
                expect_bytes(env.read(buf), pattern(40 * MIB), "memory that was reserved")
                expect_equal(pool.stats().reserved, reserved, "what a pool has reserved after the first memory")
                stream.synchronize()
            pool.trim()
            expect_equal(pool.stats().reserved, 0, "what a trimmed pool has reserved")


@check("POOL-51")
def an_initial_size_that_cannot_be(env: Env, resource: Any) -> None:
    pm, upstream = env.pm, resource.upstream
    before = upstream.live_bytes
    with refused(ValueError, saying="larger than its limit"):
        pm.PoolMemoryResource(upstream, limit="16 MiB", initial_size="32 MiB")
    with refused(OutOfMemoryError):
        pm.PoolMemoryResource(upstream, initial_size=1 << 50)
    for wrong in (-1, "200%", "plenty"):
        with refused(ValueError):
            pm.PoolMemoryResource(upstream, initial_size=wrong)
    with pm.PoolMemoryResource(upstream, initial_size=0) as pool:
        expect_equal(pool.stats().reserved, 0, "what a pool with an initial size of 0 has reserved")
    expect_soon(lambda: upstream.live_bytes, before, "bytes of the resource below pools that could not be made")
