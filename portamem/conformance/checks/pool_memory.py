# SPDX-License-Identifier: MIT
"""Shows which stream gets a pool's memory next, and when: its own, others, the host, and all after a stream's end."""

from __future__ import annotations

import ctypes
from typing import Any

from portamem.conformance.checks.error_injected import failing
from portamem.conformance.checks.order_memory import expect_filled
from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW, OLD, other_end
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.latch import Latch
from portamem.conformance.kit.memory import KIB, MIB
from portamem.conformance.kit.pooled import pool_like
from portamem.conformance.kit.threads import on_a_thread
from portamem.errors import Error


@check("POOL-22")
def a_pool_takes_nothing_before_it_must(env: Env, resource: Any) -> None:
    expect_equal((resource.stats().used, resource.stats().reserved), (0, 0), "used and reserved of a new pool")
    expect_equal(resource.upstream.live_bytes, 0, "bytes that a new pool has of its upstream")
    with env.allocate(resource, 1000) as buf:
        buf.fill(1)
        reserved = resource.stats().reserved
        expect(0 < reserved <= 4 * MIB, f"{reserved} bytes are reserved for 1000")
        expect_equal(resource.upstream.live_bytes, reserved, "bytes that the pool has of its upstream")
    expect_equal(resource.stats().reserved, reserved, "reserved after the free")
    upstream = resource.upstream
    resource.close()
    expect_equal((upstream.live_buffers, upstream.live_bytes), (0, 0), "what a closed pool has of its upstream")


@check("POOL-22")
def what_a_stream_freed_is_put_together_first(env: Env, resource: Any) -> None:
    env.need(not resource.is_host_accessible, "memory that devices alone reach")  # other waits for events
    stream = env.stream()
    parts = [resource.allocate(480 * KIB, stream=stream) for _ in range(4)]
    for part in parts:
        part.close()
    reserved = resource.stats().reserved
    with resource.allocate(1900 * KIB, stream=stream) as whole:
        whole.fill(7, stream=stream)
        expect_equal(resource.stats().reserved, reserved, "reserved for 1900 KiB, where a stream has freed 4 x 480 KiB")
        expect_filled(env, [whole], 7, "memory that was put together")


@check("POOL-22")
def what_was_outgrown_goes_back(env: Env, resource: Any) -> None:
    stream, nbytes = env.stream(), 8 * MIB
    with pool_like(env, resource) as pool:
        while nbytes < 48 * MIB:
            with pool.allocate(nbytes, stream=stream):
                reserved = pool.stats().reserved
                expect(reserved <= 2.2 * nbytes, f"{reserved} bytes are reserved, where {nbytes} are the most so far")
            stream.synchronize()
            nbytes += nbytes // 8


@check("POOL-41")
def without_host_access(env: Env) -> None:
    for name in ("device", "pinned"):
        stream, upstream = env.stream(), env.resource(name)
        with env.pm.PoolMemoryResource(upstream) as pool:
            expect_equal(pool.is_host_accessible, upstream.is_host_accessible, f"host access of a pool over {name}")
        with env.pm.PoolMemoryResource(upstream, host_access=False) as pool:
            expect(not pool.is_host_accessible, f"the host reaches a pool over {name} that was made without")
            buf = pool.allocate(NBYTES, stream=stream)
            buf.fill(1, stream=stream)
            where = buf.handle
            with env.latch(stream):
                buf.close()
                buf = pool.allocate(NBYTES, stream=stream)
                expect_equal(buf.handle, where, f"the address of what the stream has freed of {name} memory")
                buf.fill(2, stream=stream)
                with refused(BufferError):
                    memoryview(buf)
            expect_filled(env, [buf], 2, f"{name} memory that was freed and allocated again")
            stream.synchronize()


@check("POOL-23")
def a_stream_gets_its_own_memory_at_once(env: Env, resource: Any) -> None:
    stream, turns, nbytes = env.stream(), 50, 4 * KIB
    with env.resource("pinned").allocate(turns * nbytes) as seen:
        seen.fill(0)
        with env.latch(stream):
            resource.allocate(nbytes, stream=stream).close()
            reserved, misses = resource.stats().reserved, resource.stats().misses
            for turn in range(turns):
                with resource.allocate(nbytes, stream=stream) as buf, seen[turn * nbytes : (turn + 1) * nbytes] as part:
                    buf.fill(turn, stream=stream)
                    part.copy_from(buf, stream=stream)
            expect(not stream.query(), "the pool waited for the stream's work")
            expect_equal(resource.stats().reserved, reserved, "reserved after a loop")
            expect_equal(resource.stats().misses, misses, "misses of a loop that takes what it gave back")
        stream.synchronize()
        expect_bytes(env.read(seen), b"".join(bytes([turn]) * nbytes for turn in range(turns)), "what each turn wrote")


@check("POOL-23")
def a_stream_gets_what_another_of_its_threads_gave_back(env: Env, resource: Any) -> None:
    stream, nbytes = env.stream(), 3 * MIB
    first = resource.allocate(nbytes, stream=stream)
    where = first.handle
    with env.latch(stream):
        first.close()  # this thread lives on, and has the block no more than others

        def again() -> int:
            with resource.allocate(nbytes, stream=stream) as buf:
                return int(buf.handle)

        for _ in range(3):
            expect_equal(on_a_thread(again), where, "the address of what another thread has freed on the stream")
        expect(not stream.query(), "the pool waited for the stream's work")


@check("POOL-24")
def another_stream_gets_it_behind_its_last_use(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    first, second, side = env.stream(), env.stream(), env.stream()
    with other_end(env, resource).allocate(NBYTES, stream=side) as target:
        env.write(target, OLD)
        source = resource.allocate(NBYTES, stream=first)
        env.write(source, NEW)
        with env.latch(first):
            target.copy_from(source, stream=first)
            source.close()
            others = [resource.allocate(NBYTES, stream=second) for _ in range(3)]  # waits for no stream
            for other in others:
                other.fill(0xFF, stream=second)
        second.synchronize()
        first.synchronize()
        expect_bytes(env.read(target), NEW, "the target of a copy out of memory that another stream got meanwhile")
        expect_filled(env, others, 0xFF, "memory that another stream got")


@check("POOL-24")
def where_there_is_no_other_memory(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    first, second, side, nbytes = env.stream(), env.stream(), env.stream(), 4 * MIB
    with (
        pool_like(env, resource, limit=6 * MIB) as pool,
        other_end(env, resource).allocate(nbytes, stream=side) as target,
    ):
        env.write(target, bytes(nbytes))
        for giver, taker in ((first, second), (second, first), (first, second)):
            source = pool.allocate(nbytes, stream=giver)
            source.fill(0x11, stream=giver)
            giver.synchronize()
            with env.latch(giver) as held:
                target.copy_from(source, stream=giver)
                source.close()
                held.release_soon()  # the allocation below may have to wait for it
                with pool.allocate(nbytes, stream=taker) as other:
                    other.fill(0xFF, stream=taker)
                    giver.synchronize()
                    expect_bytes(
                        env.read(target), b"\x11" * nbytes, "the target of a copy out of memory that was taken"
                    )
                    expect_bytes(env.read(other), b"\xff" * nbytes, "memory that was taken")
        expect(pool.stats().reserved <= 6 * MIB, f"{pool.stats().reserved} bytes are reserved under a limit of 6 MiB")


def _host_writes(buf: Any, value: int) -> None:
    """Writes as the host does: by address, and behind nothing."""
    ctypes.memset(buf.handle, value, buf.nbytes)


@check("POOL-25")
def the_host_writes_while_a_latch_holds_the_old_copy(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    if resource.kind == "managed":  # without it the host may touch none while the device works
        env.need(env.device.capabilities.concurrent_managed_access, "concurrent_managed_access")
    stream, user = env.stream(), env.stream()
    with env.resource("device").allocate(NBYTES) as target:
        for on in (stream, user):  # the memory's own stream, and one that was declared
            source = resource.allocate(NBYTES, stream=stream)
            env.write(source, NEW)
            target.fill(0)
            with env.latch(on) as held:
                target.copy_from(source, stream=on)
                source.close()
                others = [resource.allocate(NBYTES, stream=stream) for _ in range(4)]
                for other in others:
                    _host_writes(other, 0xFF)
                expect(not on.query(), "the pool waited for what a latch holds")
                held.release()
                on.synchronize()
            expect_bytes(env.read(target), NEW, "the target of a copy whose source was closed and handed out again")
            expect_filled(env, others, 0xFF, "memory that the host wrote")


@check("POOL-25")
def every_declared_stream_is_waited_for(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    if resource.kind == "managed":
        env.need(env.device.capabilities.concurrent_managed_access, "concurrent_managed_access")
    home, users = env.stream(), [env.stream() for _ in range(2)]
    targets = [env.resource("device").allocate(NBYTES) for _ in users]
    for last in users:
        source = resource.allocate(NBYTES, stream=home)
        env.write(source, NEW)
        with env.latch(last) as held:
            for user, target in zip(users, targets, strict=True):
                source.record_stream(user)
                target.copy_from(source, stream=user)
            source.close()
            with resource.allocate(NBYTES, stream=home) as other:
                _host_writes(other, 0xFF)
            held.release()
        for user, target in zip(users, targets, strict=True):
            user.synchronize()
            expect_bytes(env.read(target), NEW, "the target of a copy on one of two declared streams")
            target.fill(0)
    for target in targets:
        target.close()


@check("POOL-25", backends=("host",))
def memory_that_could_not_be_marked(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    stream = env.stream()
    with env.resource("device").allocate(NBYTES) as target:
        source = resource.allocate(NBYTES, stream=stream)
        env.write(source, NEW)
        target.fill(0)
        with env.latch(stream) as held:
            target.copy_from(source, stream=stream)
            source.close()
            with failing(env, "EventRecord", 1, 999), refused(Error):
                resource.allocate(8 * MIB, stream=stream)  # more than is at hand
            others = [resource.allocate(NBYTES, stream=stream) for _ in range(4 * MIB // NBYTES)]
            for other in others:
                _host_writes(other, 0xFF)
            held.release()
            stream.synchronize()
        expect_bytes(env.read(target), NEW, "the target of a copy whose source was closed, and could not be marked")
        for other in others:
            other.close()


@check("POOL-25", backends=("host",))
def memory_that_trim_could_not_mark(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    nbytes, stream = 8 * MIB, env.stream()  # no rest of its chunk is worth mentioning
    with env.resource("device").allocate(NBYTES) as target:
        source = resource.allocate(nbytes, stream=stream)
        where = source.handle
        env.write(source[:NBYTES], NEW)
        target.fill(0)
        with env.latch(stream) as held:
            target.copy_from(source[:NBYTES], stream=stream)
            source.close()
            with failing(env, "EventRecord", 1, 999), refused(Error):
                resource.trim()
            others = [resource.allocate(nbytes, stream=stream)]
            _host_writes(others[0], 0xFF)
            expect(not stream.query(), "the pool waited for what a latch holds")
            held.release()
            stream.synchronize()
        expect_bytes(env.read(target), NEW, "the target of a copy whose source trim could not mark")

        def is_handed_out_again() -> bool:
            others.append(resource.allocate(nbytes, stream=stream))
            stream.synchronize()
            return others[-1].handle == where or len(others) == 8

        eventually(is_handed_out_again)
        expect_equal(others[-1].handle, where, "the address of memory that trim could not mark, and that has run since")
        for other in others:
            other.close()


@check("POOL-25")
def what_is_done_is_handed_out_again(env: Env, resource: Any) -> None:
    stream = env.stream()
    resource.allocate(NBYTES, stream=stream).close()
    stream.synchronize()
    reserved = resource.stats().reserved
    for turn in range(2 * reserved // NBYTES):
        with resource.allocate(NBYTES, stream=stream) as buf:
            buf.fill(turn % 256, stream=stream)
        stream.synchronize()
    expect_equal(resource.stats().reserved, reserved, "reserved after a loop whose every turn was waited for")


@check("POOL-26")
def memory_of_a_closed_stream(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    side = env.stream()
    with other_end(env, resource).allocate(NBYTES, stream=side) as target:
        env.write(target, OLD)
        gone = env.pm.Stream(env.device)
        source = resource.allocate(NBYTES, stream=gone)
        env.write(source, NEW)
        with env.latch(gone) as held:
            target.copy_from(source, stream=gone)
            source.close()
            held.release_soon()  # some vendors wait for a stream's work before they destroy it
            gone.close()
            streams = [env.stream() for _ in range(4)]
            others = [resource.allocate(NBYTES, stream=stream) for stream in streams]
            for other, stream in zip(others, streams, strict=True):
                other.fill(0xFF, stream=stream)
        for stream in streams:
            stream.synchronize()
        expect_bytes(env.read(target), NEW, "the target of a copy on a stream that was closed meanwhile")
        expect_filled(env, others, 0xFF, "memory that another stream got")


def _freed_by_a_thread_that_has_ended(env: Env, pool: Any, nbytes: int, target: Any, nth: int = 0) -> Latch:
    """Memory that a thread freed on its own stream, behind a copy that the latch holds. The ``nth`` mark fails."""

    def work() -> Latch:
        own = env.device.per_thread_stream
        source = pool.allocate(nbytes, stream=own)
        source.fill(0x77, stream=own)
        own.synchronize()
        held = env.latch(own)
        target.copy_from(source[: target.nbytes], stream=own)
        if nth == 0:
            source.close()
        else:
            with failing(env, "EventRecord", nth, 999):
                source.close()
        return held

    held: Latch = on_a_thread(work)
    return held


def _is_anybodys(pool: Any) -> bool:
    """True where no stream alone has free memory of the pool: a thread's last acts come after Python's."""
    return all("stream" not in piece for chunk in pool.snapshot()["chunks"] for piece in chunk["pieces"])


@check("POOL-47")
def memory_of_a_thread_that_has_ended(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    with other_end(env, resource).allocate(NBYTES) as target:
        env.write(target, OLD)
        held = _freed_by_a_thread_that_has_ended(env, resource, NBYTES, target)
        eventually(lambda: _is_anybodys(resource), seconds=0.5)
        streams = [env.stream() for _ in range(4)]
        held.release_soon()
        others = [resource.allocate(NBYTES, stream=stream) for stream in streams]
        for other, stream in zip(others, streams, strict=True):
            other.fill(0xFF, stream=stream)
        for stream in streams:
            stream.synchronize()
        env.device.synchronize()
        expect_bytes(env.read(target), b"\x77" * NBYTES, "the target of a copy on the stream of a thread that ended")
        expect_filled(env, others, 0xFF, "memory that another stream got")
        for other in others:
            other.close()


@check("POOL-47", backends=("host",))
def memory_that_a_thread_could_not_mark(env: Env, resource: Any) -> None:
    env.need(not resource.is_host_accessible, "memory that devices alone reach")  # other waits for its event
    nbytes = 66 * MIB  # more than a thread keeps for itself
    stream = env.stream()
    with other_end(env, resource).allocate(NBYTES) as target:
        env.write(target, OLD)
        held = _freed_by_a_thread_that_has_ended(env, resource, nbytes, target, nth=1)
        expect(eventually(lambda: _is_anybodys(resource)), "what a thread has freed stays with it when it has ended")
        with resource.allocate(nbytes, stream=stream) as other:
            other.fill(0xFF, stream=stream)
            held.release_soon()
            stream.synchronize()
        env.device.synchronize()
        expect_bytes(env.read(target), b"\x77" * NBYTES, "the target of a copy out of memory that was not marked")


@check("POOL-26")
def a_handle_that_comes_again_is_another_stream(env: Env, resource: Any) -> None:
    reserved, handles = 0, set()
    for turn in range(64):
        stream = env.pm.Stream(env.device)
        handles.add(stream.handle)
        with resource.allocate(NBYTES, stream=stream) as buf, resource.allocate(NBYTES, stream=stream) as beside:
            buf.fill(turn, stream=stream)
            beside.fill(0xFF, stream=stream)
            expect_bytes(env.read(buf), bytes([turn]) * NBYTES, "memory of a new stream")
        stream.close()
        reserved = reserved or resource.stats().reserved
    expect(
        resource.stats().reserved <= 2 * reserved,
        f"{resource.stats().reserved} bytes for 64 streams, one after another",
    )
    env.note(f"64 streams had {len(handles)} handles")


@check("POOL-25")
def what_one_stream_frees_and_another_takes(env: Env, resource: Any) -> None:
    first, second = env.stream(), env.stream()
    for nbytes, turns in ((32 * KIB, 1000), (MIB, 160)):
        for turn in range(turns):
            buf = resource.allocate(nbytes, stream=second)
            buf.fill(turn % 256, stream=second)
            if turn % 50 == 0:
                expect_bytes(env.read(buf[-16:]), bytes([turn % 256]) * 16, f"memory of turn {turn}")
            buf.close(stream=first)
            first.synchronize()
        reserved = resource.stats().reserved
        expect(
            reserved <= turns * nbytes // 2, f"{reserved} bytes are reserved for {turns} times {nbytes}, one at a time"
        )
