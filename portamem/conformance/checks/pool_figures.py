# SPDX-License-Identifier: MIT
"""Shows the clauses of what pools hold, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.witness.base import Witness

ALL = 2**64 - 1
CURRENT = {"used": "used_current", "reserved": "reserved_current"}
RESERVED = {"reserved": "reserved_current"}
THRESHOLD = {"release_threshold": "release_threshold"}
MARKS = {"used_high": "used_high", "reserved_high": "reserved_high"}
POLICIES = ("reuse_follow_event_dependencies", "reuse_allow_opportunistic", "reuse_allow_internal_dependencies")


def settings(pool: Any) -> dict[str, Any]:
    """The settings that a pool can be given."""
    return {name: getattr(pool, name) for name in ("release_threshold", *POLICIES)}


def _waits(env: Env, stream: Any) -> tuple[Callable[[], None], ...]:
    """The three ways of waiting for a stream's work."""
    return stream.synchronize, lambda: stream.record().synchronize(), env.device.synchronize


def told(pool: Any, witness: Witness | None, names: dict[str, str], when: str) -> tuple[int, ...]:
    """Figures of a pool by the witness, and portamem has to say the same; by portamem alone where no witness is
    asked."""
    if witness is None:
        return tuple(getattr(pool, name) for name in names)
    theirs = tuple(witness.pool_attribute(pool.pool_handle, name) for name in names.values())
    expect_equal(tuple(getattr(pool, name) for name in names), theirs, f"{' and '.join(names)} {when}")
    return theirs


@check("POOL-01")
def a_pool_of_its_own(env: Env) -> None:
    _a_pool_of_its_own(env, None)


@check("POOL-01")
def a_pool_of_its_own_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _a_pool_of_its_own(env, witness)


def _a_pool_of_its_own(env: Env, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    pool, stream = env.resource("async"), env.stream()
    expect(pool.owns_pool and pool.pool_handle != 0, "a resource says that its own pool is another's")
    expect_equal(told(pool, witness, {**CURRENT, **MARKS}, "at first"), (0, 0, 0, 0), "a new pool's figures")
    expect_equal(told(pool, witness, THRESHOLD, "at first"), (ALL,), "release_threshold")
    pool.allocate(8 * MIB, stream=stream).close()
    stream.synchronize()
    expect_equal(told(pool, witness, CURRENT, "after a free and a wait")[0], 0, "used")
    with env.pm.AsyncMemoryResource(env.device) as other:
        expect(other.pool_handle != pool.pool_handle, "two resources have one pool of their own")
        expect_equal(told(other, witness, CURRENT, "of another pool"), (0, 0), "the figures of another pool")


@check("POOL-01")
def it_keeps_what_it_has_reserved(env: Env) -> None:
    _it_keeps_what_it_has_reserved(env, None)


@check("POOL-01")
def it_keeps_what_it_has_reserved_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _it_keeps_what_it_has_reserved(env, witness)


def _it_keeps_what_it_has_reserved(env: Env, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    pool, stream = env.resource("async"), env.stream()
    for wait in _waits(env, stream):
        pool.allocate(8 * MIB, stream=stream).close()
        wait()
        used, reserved = told(pool, witness, CURRENT, "after a free and a wait")
        expect(reserved >= 8 * MIB, "a pool that keeps all gave memory back")
        expect_equal(used, 0, "used")


@check("POOL-02")
def a_threshold_is_taken(env: Env, resource: Any) -> None:
    _a_threshold_is_taken(env, resource, None)


@check("POOL-02")
def a_threshold_is_taken_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    _a_threshold_is_taken(env, resource, witness)


def _a_threshold_is_taken(env: Env, resource: Any, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    before = resource.release_threshold
    try:
        for given, value in ((0, 0), ("16 MiB", 16 * MIB), (12_345_678, 12_345_678), (2**40, 2**40), (ALL, ALL)):
            resource.release_threshold = given
            (found,) = told(resource, witness, THRESHOLD, f"set to {given!r}")
            if found != value:
                env.need(env.device.probe().pool_threshold_accepted, "pool_threshold_accepted")
            expect_equal(found, value, f"release_threshold, set to {given!r}")
            if resource.owns_pool:
                with env.pm.AsyncMemoryResource(env.device, release_threshold=given) as made:
                    (found,) = told(made, witness, THRESHOLD, f"made with {given!r}")
                    expect_equal(found, value, f"release_threshold of a pool made with {given!r}")
    finally:
        resource.release_threshold = before


def _expect_reserved(env: Env, holds: bool, otherwise: str) -> None:
    if not holds and env.platform.vendor == "amd":
        env.need(env.device.probe().pool_threshold_effective, "pool_threshold_effective")
    expect(holds, otherwise)


@check("POOL-03")
def a_threshold_is_obeyed(env: Env) -> None:
    _a_threshold_is_obeyed(env, None)


@check("POOL-03")
def a_threshold_is_obeyed_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _a_threshold_is_obeyed(env, witness)


def _a_threshold_is_obeyed(env: Env, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    stream = env.stream()
    for threshold in (0, 16 * MIB, ALL):
        with env.pm.AsyncMemoryResource(env.device, release_threshold=threshold) as pool:
            for wait in _waits(env, stream):
                pool.allocate(64 * MIB, stream=stream).close()
                wait()
                (found,) = told(pool, witness, RESERVED, "after a free and a wait")
                right = found >= 64 * MIB if threshold == ALL else found <= threshold
                _expect_reserved(env, right, f"{found} bytes are reserved with a threshold of {threshold}")


@check("POOL-03")
def a_threshold_is_obeyed_from_when_it_is_set(env: Env) -> None:
    _a_threshold_is_obeyed_from_when_it_is_set(env, None)


@check("POOL-03")
def a_threshold_is_obeyed_from_when_it_is_set_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _a_threshold_is_obeyed_from_when_it_is_set(env, witness)


def _a_threshold_is_obeyed_from_when_it_is_set(env: Env, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    stream = env.stream()
    with env.pm.AsyncMemoryResource(env.device, release_threshold=0) as pool:
        pool.release_threshold = "1 GiB"
        pieces = [pool.allocate(16 * MIB, stream=stream) for _ in range(4)]
        for piece in pieces:
            piece.close()
        stream.synchronize()
        (found,) = told(pool, witness, RESERVED, "within 1 GiB")
        _expect_reserved(env, found >= 64 * MIB, f"{found} bytes are kept of 64 MiB within 1 GiB")
        pool.release_threshold = 32 * MIB
        stream.synchronize()
        pool.allocate(1, stream=stream).close()
        stream.synchronize()
        (found,) = told(pool, witness, RESERVED, "after a threshold of 32 MiB")
        _expect_reserved(env, found <= 32 * MIB, f"{found} bytes are reserved, and 32 MiB may be")


def _take_and_give_back(pool: Any, stream: Any) -> None:
    """128 MiB, in four pieces."""
    pieces = [pool.allocate(32 * MIB, stream=stream) for _ in range(4)]
    for piece in pieces:
        piece.close()
    stream.synchronize()


@check("POOL-04")
def trim(env: Env) -> None:
    _trim(env, None)


@check("POOL-04")
def trim_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _trim(env, witness)


def _trim(env: Env, witness: Witness | None) -> None:
    pool, stream = env.resource("async"), env.stream()
    _take_and_give_back(pool, stream)
    (before,) = told(pool, witness, RESERVED, "before a trim")
    expect(before >= 128 * MIB, f"{before} bytes are reserved of 128 MiB")
    for keep in (before + MIB, "64 GiB", before):
        pool.trim(keep)
        (found,) = told(pool, witness, RESERVED, f"after a trim to {keep}")
        expect_equal(found, before, f"reserved after a trim to {keep}")
    pool.trim("64 MiB")
    (found,) = told(pool, witness, RESERVED, "after a trim to 64 MiB")
    expect(found <= 64 * MIB, f"{found} bytes are reserved after a trim to 64 MiB")


@check("POOL-04")
def trim_to_nothing(env: Env) -> None:
    _trim_to_nothing(env, None)


@check("POOL-04")
def trim_to_nothing_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _trim_to_nothing(env, witness)


def _trim_to_nothing(env: Env, witness: Witness | None) -> None:
    pool, stream = env.resource("async"), env.stream()
    _take_and_give_back(pool, stream)
    pool.trim("64 MiB")
    (found,) = told(pool, witness, RESERVED, "after a trim to 64 MiB")
    expect(found <= 64 * MIB, f"{found} bytes are reserved after a trim to 64 MiB")
    pool.trim()
    expect_equal(told(pool, witness, RESERVED, "after a trim"), (0,), "reserved after a trim to nothing")
    with pool.allocate(MIB, stream=stream) as buf:
        data = pattern(MIB, 3)
        env.write(buf, data)
        expect_bytes(env.read(buf), data, "memory of a pool that was trimmed")


@check("POOL-05")
def trim_leaves_what_is_used(env: Env, resource: Any) -> None:
    _trim_leaves_what_is_used(env, resource, None)


@check("POOL-05")
def trim_leaves_what_is_used_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    _trim_leaves_what_is_used(env, resource, witness)


def _trim_leaves_what_is_used(env: Env, resource: Any, witness: Witness | None) -> None:
    stream = env.stream()
    before, _ = told(resource, witness, CURRENT, "at first")
    buf = resource.allocate(4 * MIB, stream=stream)
    data = pattern(4 * MIB, 5)
    env.write(buf, data)
    stream.synchronize()
    resource.trim()
    expect_equal(told(resource, witness, CURRENT, "after a trim")[0], before + 4 * MIB, "used")
    expect_bytes(env.read(buf), data, "memory in use, after a trim")
    with env.allocate(env.resource("pinned"), 4 * MIB) as out:
        with env.latch(stream):
            done = out.copy_from(buf, stream=stream)
            buf.close()
            resource.trim()
            (found,) = told(resource, witness, RESERVED, "before the free has run")
            expect(found >= 4 * MIB, "memory whose free has not run was given back")
        done.synchronize()
        expect_bytes(env.read(out), data, "what was read of memory whose free had not run at a trim")
    stream.synchronize()
    resource.trim()
    expect_equal(told(resource, witness, CURRENT, "after the frees")[0], before, "used")


@check("POOL-06")
def figures(env: Env, resource: Any) -> None:
    stream, other = env.stream(), env.resource("async")
    used = resource.used
    sizes = (1, 1000, MIB, 2 * MIB, 5 * MIB + 512)
    buffers = [resource.allocate(nbytes, stream=stream) for nbytes in sizes]
    for buf, nbytes in zip(buffers, sizes, strict=True):
        buf.fill(1, stream=stream)
        expect_equal(buf.nbytes, nbytes, "nbytes")
    asked = sum(sizes)
    expect(asked <= resource.used - used <= asked + len(sizes) * 2 * MIB, f"{resource.used - used} used of {asked}")
    expect(resource.reserved >= resource.used, f"{resource.used} are used of {resource.reserved} reserved")
    expect_equal((resource.live_buffers, resource.live_bytes), (len(sizes), asked), "live buffers and bytes")
    expect_equal((other.used, other.reserved), (0, 0), "the figures of another pool")
    for left in (4, 3, 2, 1, 0):
        buffers.pop().close()
        stream.synchronize()
        expect(resource.used - used >= sum(sizes[:left]), f"{resource.used - used} used of {sum(sizes[:left])}")
        expect_equal(resource.live_bytes, sum(sizes[:left]), "live bytes")
    expect_equal(resource.used, used, "used after all frees")


@check("POOL-07")
def high_water_marks(env: Env) -> None:
    pool, stream = env.resource("async"), env.stream()
    one, two = pool.allocate(MIB, stream=stream), pool.allocate(32 * MIB, stream=stream)
    expect(pool.used_high >= 33 * MIB and pool.reserved_high >= pool.used_high, "the marks are below what is current")
    two.close()
    stream.synchronize()
    pool.trim()
    most = pool.used_high, pool.reserved_high
    expect(most[0] >= 33 * MIB > pool.used, "the mark of used is not what was most")
    expect(most[1] >= 33 * MIB, "the mark of reserved is not what was most")
    with pool.allocate(MIB, stream=stream):
        expect_equal((pool.used_high, pool.reserved_high), most, "the marks, with less in use")
    stream.synchronize()
    expect_equal((pool.used_high, pool.reserved_high), most, "the marks, with less in use")
    pool.reset_high()
    expect_equal((pool.used_high, pool.reserved_high), (pool.used, pool.reserved), "the marks after a reset")
    with pool.allocate(8 * MIB, stream=stream):
        expect(9 * MIB <= pool.used_high < most[0], f"the mark of used is {pool.used_high} after a reset and 9 MiB")
    one.close()
    stream.synchronize()
    expect(pool.used == 0 < pool.used_high, "the mark of used fell without a reset")
    pool.reset_high()
    expect_equal(pool.used_high, 0, "the mark of used after a reset with nothing in use")
    pool.trim()
    pool.reset_high()
    expect_equal(pool.reserved_high, 0, "the mark of reserved after a reset with nothing reserved")


@check("POOL-06")
def figures_as_the_witness_sees_them(env: Env, resource: Any, witness: Witness) -> None:
    stream, other = env.stream(), env.resource("async")
    idle, _ = told(resource, witness, CURRENT, "at first")
    sizes = (1, 1000, MIB, 2 * MIB, 5 * MIB + 512)
    asked, most = sum(sizes), len(sizes) * 2 * MIB
    buffers = [resource.allocate(nbytes, stream=stream) for nbytes in sizes]
    used, reserved = told(resource, witness, CURRENT, f"with {asked} bytes allocated")
    expect(asked <= used - idle <= asked + most, f"{used - idle} are used of {asked}, by the runtime")
    expect(reserved >= used, f"{used} are used of {reserved} reserved, by the runtime")
    expect_equal(told(other, witness, CURRENT, "of another pool"), (0, 0), "the figures of another pool")
    for left in (4, 3, 2, 1, 0):
        buffers.pop().close()
        stream.synchronize()
        used, reserved = told(resource, witness, CURRENT, f"with {left} buffers left")
        least = sum(sizes[:left])
        expect(least <= used - idle <= least + most, f"{used - idle} are used of {least}, by the runtime")
        expect(reserved >= used, f"{used} are used of {reserved} reserved, by the runtime")
    expect_equal(used, idle, "used after all frees, by the runtime")


@check("POOL-07")
def high_water_marks_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    pool, stream = env.resource("async"), env.stream()
    one, two = pool.allocate(MIB, stream=stream), pool.allocate(32 * MIB, stream=stream)
    two.close()
    stream.synchronize()
    pool.trim()
    most = told(pool, witness, MARKS, "after a free and a trim")
    now = told(pool, witness, CURRENT, "after a free and a trim")
    expect(most[0] >= 33 * MIB > now[0], f"the mark of used is {most[0]} with {now[0]} used, by the runtime")
    expect(most[1] >= 33 * MIB, f"the mark of reserved is {most[1]}, by the runtime")
    with pool.allocate(MIB, stream=stream):
        expect_equal(told(pool, witness, MARKS, "with less in use"), most, "the marks, with less in use")
    stream.synchronize()
    pool.reset_high()
    now = told(pool, witness, CURRENT, "at a reset")
    expect_equal(told(pool, witness, MARKS, "after a reset"), now, "the marks after a reset, by the runtime")
    with pool.allocate(8 * MIB, stream=stream):
        used = told(pool, witness, MARKS, "with 9 MiB in use")[0]
        expect(9 * MIB <= used < most[0], f"the mark of used is {used} after a reset and 9 MiB, by the runtime")
    one.close()
    stream.synchronize()
    pool.trim()
    pool.reset_high()
    expect_equal(told(pool, witness, MARKS, "of an empty pool"), (0, 0), "the marks of an empty pool, by the runtime")


@check("POOL-20")
def a_pool_as_the_witness_sees_it(env: Env, resource: Any, witness: Any) -> None:
    stream, handle = env.stream(), resource.pool_handle
    figures = {
        **CURRENT,
        **MARKS,
        "release_threshold": "release_threshold",
        **{policy: policy for policy in POLICIES},
    }

    def expect_agreement(when: str) -> None:
        for ours, theirs in figures.items():
            expect_equal(getattr(resource, ours), witness.pool_attribute(handle, theirs), f"{ours} {when}")

    before = settings(resource)
    expect_agreement("of a pool that was not touched")
    with resource.allocate(3 * MIB, stream=stream), resource.allocate(40 * MIB, stream=stream):
        expect_agreement("with 43 MiB in use")
    stream.synchronize()
    expect_agreement("after the frees")
    resource.reset_high()
    expect_agreement("after a reset of the marks")
    try:
        resource.release_threshold = 5 * MIB
        resource.reuse_follow_event_dependencies = False
        expect_agreement("that portamem set")
        for policy in POLICIES:
            expect_equal(witness.set_pool_attribute(handle, policy, 1), None, "the answer to setting a policy")
        expect_equal(witness.set_pool_attribute(handle, "release_threshold", 7 * MIB), None, "the answer to setting")
        expect_agreement("that the witness set")
        expect_equal(resource.release_threshold, 7 * MIB, "release_threshold")
    finally:
        for name, value in before.items():
            setattr(resource, name, value)
    resource.trim()
    expect_agreement("after a trim")
