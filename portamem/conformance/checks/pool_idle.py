# SPDX-License-Identifier: MIT
"""Shows that what one pool keeps idle is there for another that finds no memory, unless its maker says otherwise."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB
from portamem.conformance.kit.outcome import Failed
from portamem.errors import OutOfMemoryError

LARGE = 10 * MIB  # two of them are more than the resource below has


def _below(env: Env, resource: Any) -> Any:
    kind = env.kind_of(resource).upstream
    if kind is None:
        raise Failed(f"{resource!r} stands over nothing")
    return env.pm.LimitingAdaptor(kind.make(env.pm, env.device), 16 * MIB)


def _leave_idle(pool: Any, stream: Any) -> None:
    with pool.allocate(LARGE, stream=stream) as buf:
        buf.fill(1, stream=stream)
    stream.synchronize()


@check("POOL-48")
def idle_memory_of_one_pool_is_anothers(env: Env, resource: Any) -> None:
    stream, below = env.stream(), _below(env, resource)
    with env.pm.PoolMemoryResource(below) as idle, env.pm.PoolMemoryResource(below) as pool:
        _leave_idle(idle, stream)
        with pool.allocate(LARGE, stream=stream) as buf:
            buf.fill(2, stream=stream)
            expect_bytes(env.read(buf), b"\x02" * LARGE, "memory that another pool kept")
            expect(idle.stats().releases > 0, "the pool beside it has given nothing back")
            with refused(OutOfMemoryError):  # memory that is out stays
                idle.allocate(LARGE, stream=stream)
            expect_bytes(env.read(buf), b"\x02" * LARGE, "memory that is out while another pool finds none")


@check("POOL-48")
def idle_memory_that_a_pool_keeps_to_itself(env: Env, resource: Any) -> None:
    stream, below = env.stream(), _below(env, resource)
    with env.pm.PoolMemoryResource(below, shares_idle=False) as kept, env.pm.PoolMemoryResource(below) as pool:
        _leave_idle(kept, stream)
        reserved = kept.stats().reserved
        with refused(OutOfMemoryError):
            pool.allocate(LARGE, stream=stream)
        expect_equal(kept.stats().reserved, reserved, "bytes of a pool that keeps its idle memory to itself")
        kept.trim()
        _leave_idle(pool, stream)
        with kept.allocate(LARGE, stream=stream):
            expect(pool.stats().releases > 0, "a pool that shares has given nothing to one that does not")


@check("POOL-48")
def idle_memory_beside_a_capture(env: Env, resource: Any) -> None:
    """The runtime may refuse to take the memory back during a capture. Either way the capture stays valid."""
    env.need(env.device.probe().stream_capture, "stream_capture")
    stream, captured, below = env.stream(), env.stream(), _below(env, resource)
    with env.pm.PoolMemoryResource(below) as idle, env.pm.PoolMemoryResource(below) as pool:
        _leave_idle(idle, stream)
        captured.begin_capture()
        try:
            buf = pool.allocate(LARGE, stream=stream)
        except OutOfMemoryError:
            buf = None
        finally:
            expect_equal(captured.capture_status, "active", "the capture")
            captured.end_capture()
        if buf is None:
            buf = pool.allocate(LARGE, stream=stream)
        with buf:
            buf.fill(3, stream=stream)
            expect_bytes(env.read(buf), b"\x03" * LARGE, "memory that another pool kept")
