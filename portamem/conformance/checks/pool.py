# SPDX-License-Identifier: MIT
"""Shows the clauses of pools."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from portamem.conformance.checks.pool_figures import POLICIES, RESERVED, THRESHOLD, settings, told
from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.outcome import Failed, Unsupported
from portamem.conformance.kit.platform import major_minor
from portamem.conformance.witness.base import Witness
from portamem.errors import OutOfMemoryError

SWITCHES = {policy: policy for policy in POLICIES}


@check("POOL-08")
def policies(env: Env) -> None:
    pool = env.resource("async")
    expect(all(type(getattr(pool, policy)) is bool for policy in POLICIES), "a policy is neither True nor False")
    _policies(pool, None)


@check("POOL-08")
def policies_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    _policies(env.resource("async"), witness)


def _policies(pool: Any, witness: Witness | None) -> None:
    expect_equal(told(pool, witness, SWITCHES, "at first"), (True,) * len(POLICIES), "the policies of a new pool")
    for policy in POLICIES:
        setattr(pool, policy, False)
        wanted = tuple(each != policy for each in POLICIES)
        expect_equal(told(pool, witness, SWITCHES, f"without {policy}"), wanted, f"the policies without {policy}")
        setattr(pool, policy, True)
        found = told(pool, witness, SWITCHES, f"with {policy} again")
        expect_equal(found, (True,) * len(POLICIES), f"the policies with {policy} again")


@check("POOL-09")
def without_policies(env: Env) -> None:
    pool, stream, other = env.resource("async"), env.stream(), env.stream()
    for policy in POLICIES:
        setattr(pool, policy, False)
    first = pool.allocate(NBYTES, stream=stream)
    address = first.handle
    with env.latch(stream):
        first.fill(1, stream=stream)
        first.close(stream=stream)
        second = pool.allocate(NBYTES, stream=other)
        expect(abs(second.handle - address) >= NBYTES, "memory whose free has not run was handed out")
        second.fill(2, stream=other)
        other.synchronize()
        expect(not stream.query(), "a stream that is held says that it is done")
    stream.synchronize()
    expect_bytes(env.read(second), b"\x02" * NBYTES, "memory of another stream")
    second.close()


@check("POOL-10")
def finished_frees_serve_every_stream(env: Env, resource: Any) -> None:
    _finished_frees_serve_every_stream(env, resource, None)


@check("POOL-10")
def finished_frees_serve_every_stream_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    _finished_frees_serve_every_stream(env, resource, witness)


def _finished_frees_serve_every_stream(env: Env, resource: Any, witness: Witness | None) -> None:
    if resource.owns_pool:
        resource.trim()
    streams = [env.stream() for _ in range(3)]
    keep = resource.allocate(1, stream=streams[0])
    resource.allocate(48 * MIB, stream=streams[0]).close()
    streams[0].query()
    # The free may run just now: one of the two is asked, and not both for the same.
    first = witness.pool_attribute(resource.pool_handle, "reserved_current") if witness else resource.reserved
    reserved = max(first, 48 * MIB)
    for turn in range(9):
        stream = streams[turn % 3]
        with resource.allocate(48 * MIB, stream=stream) as buf:
            buf.fill(turn, stream=stream)
        stream.synchronize()
        (found,) = told(resource, witness, RESERVED, f"after turn {turn}")
        expect(found <= reserved + 2 * MIB, f"{found} bytes are reserved, and were {reserved}")
    keep.close()
    streams[0].synchronize()


MAX_SIZE_SINCE = {"nvidia": (12, 2), "amd": (6, 4), "portamem": (0, 0)}
"""The first version of each vendor's runtime that has pools of a maximal size."""


def _need_max_size(env: Env) -> None:
    """Unsupported unless the headers, the runtime and the driver all are of a version that has a maximal size."""
    pm, platform = env.pm, env.platform
    versions = {"runtime": pm.runtime_version(), "driver": pm.driver_version()}
    if (platform.backend, platform.vendor) != ("hip", "nvidia"):  # there they are HIP's, over the runtime's own
        versions["headers"] = pm.compiled_version()
    since = MAX_SIZE_SINCE[platform.vendor]
    for what, version in versions.items():
        text = pm.version_text(version)
        if major_minor(text) < since:
            raise Unsupported(f"pools have no maximal size before {since[0]}.{since[1]}, and the {what} has {text}")


@check("POOL-11")
def max_size(env: Env) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    stream = env.stream()
    with env.pm.AsyncMemoryResource(env.device, max_size="64 MiB") as pool:
        with pool.allocate(48 * MIB, stream=stream) as first:
            try:
                pool.allocate(48 * MIB, stream=stream).close()
            except OutOfMemoryError:
                pass
            else:
                stream.synchronize()
                _need_max_size(env)
                raise Failed("96 MiB were taken of a pool of 64 MiB")
            data = pattern(48 * MIB >> 6, 1)
            with first[: len(data)] as part:
                env.write(part, data)
                expect_bytes(env.read(part), data, "memory of a pool that refused more")
        stream.synchronize()
        with pool.allocate(60 * MIB, stream=stream) as again:
            again.fill(1, stream=stream)
            stream.synchronize()
        expect(pool.reserved <= 64 * MIB, f"{pool.reserved} bytes are reserved by a pool of 64 MiB")
        stream.synchronize()


def _access(pool: Any, device: Any, witness: Witness | None) -> str:
    """A device's access to a pool by the witness, and portamem has to say the same; by portamem alone where no witness
    is asked."""
    ours: str = pool.access(device)
    if witness is None:
        return ours
    theirs = witness.pool_access(pool.pool_handle, device.ordinal)
    expect_equal(ours, theirs, f"the access of {device!r}, which the witness sees too,")
    return theirs


@check("POOL-12")
def access_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    expect_equal(_access(resource, env.device, witness), "read_write", "the access of a pool's own device")


@check("POOL-12")
def access_of_its_own_device(env: Env, resource: Any) -> None:
    expect_equal(_access(resource, env.device, None), "read_write", "the access of a pool's own device")
    with resource.allocate(NBYTES, stream=env.device.default_stream) as buf:
        env.write(buf, NEW)
        expect_bytes(env.read(buf), NEW, "memory of a pool")


@check("POOL-12")
def access_of_another_device(env: Env) -> None:
    _access_of_another_device(env, None)


@check("POOL-12")
def access_of_another_device_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _access_of_another_device(env, witness)


def _access_of_another_device(env: Env, witness: Witness | None) -> None:
    pool, other = env.resource("async"), env.other_device
    expect_equal(_access(pool, other, witness), "none", "the access of another device")
    env.need(other.can_access_peer(env.device), "can_access_peer")
    for access in ("read_write", "none", "read_write", "none"):
        pool.set_access(other, access)
        expect_equal(_access(pool, other, witness), access, "the access that was set")
        expect_equal(_access(pool, env.device, witness), "read_write", "the access of the pool's own device")


@check("POOL-13")
def copies_between_devices(env: Env) -> None:
    other = env.other_device
    env.need(other.can_access_peer(env.device), "can_access_peer")
    here, there = env.resource("async"), env.resource("device", other)
    here.set_access(other, "read_write")
    stream, home = env.stream(other), env.stream()
    with here.allocate(NBYTES, stream=home) as mine, there.allocate(NBYTES) as theirs:
        env.write(theirs, NEW)
        mine.copy_from(theirs, stream=stream).synchronize()
        expect_bytes(env.read(mine), NEW, "memory of a pool that another device wrote")
        theirs.fill(0)
        theirs.copy_from(mine, stream=stream).synchronize()
        expect_bytes(env.read(theirs), NEW, "memory of another device that was copied from a pool")


@check("POOL-14")
def the_default_pool_is_left_alone(env: Env) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    pool, stream = env.resource("async-default_pool"), env.stream()
    before = settings(pool)
    expect(not pool.owns_pool, "a resource says that it owns the device's pool")
    with pool.allocate(MIB, stream=stream) as buf:
        buf.fill(1, stream=stream)
    stream.synchronize()
    with env.pm.AsyncMemoryResource.default_pool(env.device):
        expect_equal(settings(pool), before, "the settings of the default pool")
    with env.pm.AsyncMemoryResource(env.device, release_threshold=1) as own:
        own.reuse_allow_opportunistic = False
        with own.allocate(MIB, stream=stream) as buf:
            buf.fill(1, stream=stream)
        expect_equal(settings(pool), before, "the settings of the default pool, beside a pool of its own")
    stream.synchronize()
    with pool.allocate(MIB, stream=stream) as buf:
        env.write(buf, pattern(MIB))
        expect_bytes(env.read(buf), pattern(MIB), "memory of the default pool after a resource over it was closed")


@check("POOL-14")
def pools_as_the_witness_sees_them(env: Env, witness: Any) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    names = ("release_threshold", *POLICIES)
    default, current = witness.default_pool(), witness.current_pool()
    before = {name: witness.pool_attribute(default, name) for name in names}
    stream = env.stream()
    for kind in ("async", "async-default_pool"):
        with env.resource(kind).allocate(MIB, stream=stream) as buf:
            buf.fill(1, stream=stream)
    with env.pm.zeros(1024, device=env.device) as view:
        view.fill(1)
    stream.synchronize()
    expect_equal({name: witness.pool_attribute(default, name) for name in names}, before, "the default pool's settings")
    expect_equal((witness.default_pool(), witness.current_pool()), (default, current), "default and current pool")


@check("POOL-15")
def the_default_pool(env: Env) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    pool = env.resource("async-default_pool")
    before = settings(pool)
    with env.pm.AsyncMemoryResource.default_pool(env.device) as again:
        expect_equal(again.pool_handle, pool.pool_handle, "the handle of the default pool")
        try:
            pool.release_threshold = "8 MiB"
            pool.reuse_allow_opportunistic = False
            expect_equal(settings(again), {**before, **settings(pool)}, "the settings, by another resource")
            expect_equal(again.release_threshold, 8 * MIB, "release_threshold")
            expect(not again.reuse_allow_opportunistic, "a policy that was switched off is on")
        finally:
            for name, value in before.items():
                setattr(pool, name, value)
    expect_equal(settings(pool), before, "the settings, put back")


@check("POOL-15")
def the_default_pool_is_the_devices(env: Env, witness: Any) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    expect_equal(env.resource("async-default_pool").pool_handle, witness.default_pool(), "the handle")


class _Owner:
    """Something that can be seen to live."""


@check("POOL-16")
def a_pool_of_others(env: Env) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    pool, stream, owner = env.resource("async"), env.stream(), _Owner()
    alive = weakref.ref(owner)
    with env.pm.AsyncMemoryResource.from_handle(pool.pool_handle, env.device, owner=owner) as borrowed:
        del owner
        gc.collect()
        expect(alive() is not None, "the owner was let go of before the resource")
        expect(not borrowed.owns_pool, "a resource says that it owns another's pool")
        expect_equal(settings(borrowed), settings(pool), "the settings")
        with borrowed.allocate(MIB, stream=stream) as buf:
            buf.fill(1, stream=stream)
            expect(pool.used >= MIB, "memory did not come from the pool that was named")
    del borrowed, buf
    stream.synchronize()
    gc.collect()
    expect(alive() is None, "the owner is kept after the resource is gone")
    with pool.allocate(MIB, stream=stream) as buf:
        env.write(buf, pattern(MIB))
        expect_bytes(env.read(buf), pattern(MIB), "memory of a pool after another resource over it was closed")
    with refused(ValueError):
        env.pm.AsyncMemoryResource.from_handle(0, env.device)


@check("POOL-16")
def a_pool_of_others_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    pool, stream = env.resource("async"), env.stream()
    pool.release_threshold, pool.reuse_allow_opportunistic = 8 * MIB, False
    handle, names = pool.pool_handle, ("release_threshold", *POLICIES)
    before = [witness.pool_attribute(handle, name) for name in names]
    expect_equal(before, [8 * MIB, 1, 0, 1], "the settings of the pool")
    with env.pm.AsyncMemoryResource.from_handle(handle, env.device) as borrowed:
        expect_equal(witness.pool_attribute(handle, "used_current"), 0, "what the pool has out")
        with borrowed.allocate(MIB, stream=stream) as buf:
            buf.fill(1, stream=stream)
            used = witness.pool_attribute(handle, "used_current")
            expect(used >= MIB, f"the pool that was named has {used} bytes out, and {MIB} are taken of it")
        stream.synchronize()
    expect_equal([witness.pool_attribute(handle, name) for name in names], before, "the settings afterwards")


@check("POOL-17")
def a_stream_is_required(env: Env, resource: Any) -> None:
    with refused(TypeError, ValueError, saying="stream"):
        resource.allocate(4096)
    with refused(TypeError):
        resource.allocate(4096, env.stream())
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("POOL-17")
def a_stream_of_the_pools_device_is_required(env: Env, resource: Any) -> None:
    elsewhere = env.stream(env.other_device)
    with refused(ValueError, saying="device"):
        resource.allocate(4096, stream=elsewhere)
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("POOL-18")
def settings_that_are_none(env: Env, resource: Any) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    before, pm, device = settings(resource), env.pm, env.device
    wrong: tuple[tuple[type[BaseException], Callable[[], object]], ...] = (
        (ValueError, lambda: setattr(resource, "release_threshold", -1)),
        (ValueError, lambda: setattr(resource, "release_threshold", 2**64)),
        (ValueError, lambda: setattr(resource, "release_threshold", "8 apples")),
        (TypeError, lambda: setattr(resource, "release_threshold", 1.5)),
        (TypeError, lambda: setattr(resource, "reuse_allow_opportunistic", "yes")),
        (ValueError, lambda: resource.trim(-1)),
        (TypeError, lambda: resource.trim(None)),
        (ValueError, lambda: resource.set_access(device, "write")),
        (ValueError, lambda: pm.AsyncMemoryResource(device, release_threshold=-1)),
        (ValueError, lambda: pm.AsyncMemoryResource(device, max_size=-1)),
        (TypeError, lambda: pm.AsyncMemoryResource(device, max_size=None)),
    )
    for error, call in wrong:
        with refused(error):
            call()
    expect_equal(settings(resource), before, "the settings")


@check("POOL-19")
def a_closed_pool(env: Env) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    stream = env.stream()
    pool = env.pm.AsyncMemoryResource(env.device)
    pool.allocate(MIB, stream=stream).close()
    pool.close()
    pool.close()
    expect(pool.is_closed, "a pool is not closed after close")
    uses: tuple[Callable[[], object], ...] = (
        lambda: pool.allocate(16, stream=stream),
        lambda: pool.pool_handle,
        lambda: pool.used,
        lambda: pool.reserved_high,
        lambda: pool.release_threshold,
        lambda: setattr(pool, "release_threshold", 0),
        lambda: pool.trim(),
        lambda: pool.reset_high(),
        lambda: pool.access(env.device),
        lambda: pool.set_access(env.device, "read_write"),
    )
    for use in uses:
        with refused(ValueError, saying="closed"):
            use()


@check("POOL-21")
def pools_serve_again(env: Env) -> None:
    _pools_serve_again(env, None)


@check("POOL-21")
def pools_serve_again_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _pools_serve_again(env, witness)


def _pools_serve_again(env: Env, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    handles: set[int] = set()
    thresholds: set[int] = set()
    for turn in range(8):
        with env.pm.AsyncMemoryResource(env.device) as pool:
            handles.add(pool.pool_handle)
            thresholds.update(told(pool, witness, THRESHOLD, f"at turn {turn}"))
            found = told(pool, witness, SWITCHES, f"at turn {turn}")
            expect_equal(found, (True,) * len(POLICIES), "the policies of a pool that serves again")
            for policy in POLICIES:
                setattr(pool, policy, False)
            pool.release_threshold = MIB
    expect_equal(len(handles), 1, "the number of pools that eight resources had, one after the other")
    expect_equal(len(thresholds), 1, f"the number of thresholds ({thresholds}) that they began with")


@check("POOL-21")
def what_was_granted_is_taken_back(env: Env) -> None:
    _what_was_granted_is_taken_back(env, None)


@check("POOL-21")
def what_was_granted_is_taken_back_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    _what_was_granted_is_taken_back(env, witness)


def _what_was_granted_is_taken_back(env: Env, witness: Witness | None) -> None:
    env.need(env.device.capabilities.memory_pools, "memory_pools")
    other = env.other_device
    env.need(other.can_access_peer(env.device), "can_access_peer")
    handles = set()
    for _ in range(4):
        with env.pm.AsyncMemoryResource(env.device) as pool:
            expect_equal(_access(pool, other, witness), "none", "access of another device to a pool that serves again")
            pool.set_access(other, "read_write")
            handles.add(pool.pool_handle)
    expect_equal(len(handles), 1, "the number of pools that four resources had, one after the other")
