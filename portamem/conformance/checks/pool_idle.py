# SPDX-License-Identifier: MIT
"""Shows that what one pool keeps idle is there for another that finds no memory, unless its maker says otherwise."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern
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


@check("POOL-48", backends=("host",))
def idle_memory_is_a_plain_resources(env: Env) -> None:
    """The device is full but for what pools keep: a knob of the CPU runtime makes it small."""
    stream, knobs = env.stream(), env.pm.knobs
    plain = env.resource("device")
    env.empty_default()
    pool_of = env.pm.PoolMemoryResource
    with pool_of(plain) as idle, pool_of(plain) as busy, pool_of(plain, shares_idle=False) as kept:
        for pool in (idle, busy, kept):
            _leave_idle(pool, stream)
        out = busy.allocate(LARGE, stream=stream)
        env.write(out, pattern(LARGE))
        info = env.device.memory_info()
        knobs.set_capacity(env.device, info.total - info.free + 2 * MIB)
        taken: list[Any] = []
        try:
            with refused(OutOfMemoryError, saying="trim()"):
                while len(taken) < 1000:
                    taken.append(plain.allocate(LARGE, stream=stream))
                    taken[-1].fill(len(taken), stream=stream)
                    stream.synchronize()  # memory behind work of the stream is not idle
            expect_equal(idle.stats().reserved, 0, "bytes of a pool with idle memory after the device was full")
            expect(kept.stats().reserved >= LARGE, "a pool has lent what its maker keeps for it")
            expect_bytes(env.read(out), pattern(LARGE), "memory that is out")
            out.close()
            stream.synchronize()
            before = busy.stats().reserved
            with refused(OutOfMemoryError):
                plain.allocate(1 << 40, stream=stream)
            expect_equal(busy.stats().reserved, before, "bytes of a pool after a request beyond the device")
            taken.append(plain.allocate(LARGE, stream=stream))
            taken[-1].fill(len(taken), stream=stream)
            for number, buf in enumerate(taken, 1):
                expect_bytes(env.read(buf), bytes([number % 256]) * LARGE, f"buffer {number} of a full device")
        finally:
            knobs.reset()
            for buf in taken:
                buf.close()


@check("POOL-48", backends=("host",))
def a_plain_resource_needs_many_pools(env: Env) -> None:
    """Each of them keeps a little, and all are asked in one call; none is for a request beyond the machine."""
    stream, knobs = env.stream(), env.pm.knobs
    env.empty_default()
    for kind in ("device", "pinned"):
        plain = env.resource(kind)
        pools = [env.pm.PoolMemoryResource(plain) for _ in range(30)]
        for pool in pools:
            pool.allocate(2 * MIB, stream=stream).close()
        stream.synchronize()
        kept = sum(pool.stats().reserved for pool in pools)
        with refused(OutOfMemoryError):
            plain.allocate(1 << 60, stream=stream)
        expect_equal(sum(pool.stats().reserved for pool in pools), kept, "bytes after a request that cannot be met")
        if kind == "device":
            info = env.device.memory_info()
            knobs.set_capacity(env.device, info.total - info.free)
            try:
                with plain.allocate(58 * MIB, stream=stream) as buf:
                    buf.fill(6, stream=stream)
                    expect_bytes(env.read(buf), b"\x06" * (58 * MIB), "memory of many pools")
            finally:
                knobs.reset()
        for pool in pools:
            pool.close()


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
