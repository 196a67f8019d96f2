# SPDX-License-Identifier: MIT
"""Shows the clauses of stream order: what waits for what. A latch at a stream's head shows it, never a clock."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW, OLD, Ends, device_ends, other_end
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal


def _waits(env: Env, ends: Ends) -> None:
    stream = env.stream()
    with env.latch(stream) as held:
        done = ends.target.copy_from(ends.source, stream=stream)
        expect(not stream.query(), "a stream that is held says that it is done")
        expect(not done.query(), "a copy that cannot have begun says that it is done")
        expect_bytes(ends.contents(), OLD, "the target of a copy that cannot have begun")
        held.release()
        done.synchronize()
        expect_bytes(ends.contents(), NEW, "the target of a copy that is done")
        stream.synchronize()
        expect(stream.query(), "a stream says that it is not done after it was waited for")


@check("ORDER-01", unordered=True)
def a_copy_into_memory_waits_for_its_stream(env: Env, resource: Any) -> None:
    with Ends(env, other_end(env, resource), resource) as ends:
        _waits(env, ends)


@check("ORDER-01", unordered=True)
def a_copy_out_of_memory_waits_for_its_stream(env: Env, resource: Any) -> None:
    with Ends(env, resource, other_end(env, resource)) as ends:
        _waits(env, ends)


@check("ORDER-02", unordered=True)
def a_fill_waits_for_its_stream(env: Env, resource: Any) -> None:
    stream = env.stream()
    with Ends(env, env.resource("pinned"), resource) as ends, env.latch(stream) as held:
        done = ends.target.fill(0xA5, stream=stream)
        expect(not done.query(), "a fill that cannot have begun says that it is done")
        expect_bytes(ends.contents(), OLD, "memory whose fill cannot have begun")
        held.release()
        done.synchronize()
        expect_bytes(ends.contents(), b"\xa5" * NBYTES, "memory whose fill is done")
    if not resource.is_device_accessible:
        env.emulated("a host function of the stream fills what no device reaches")


@check("ORDER-03")
def work_happens_in_the_order_of_its_queueing(env: Env, resource: Any) -> None:
    stream, ran = env.stream(), []
    with (
        env.allocate(resource, 256, stream) as buf,
        env.allocate(env.resource("pinned"), 256) as out,
        memoryview(out) as seen,
    ):
        for value in range(32):
            buf.fill(value, stream=stream)
            out.copy_from(buf, stream=stream)
            stream.launch_host_func(lambda value=value: ran.append((value, bytes(seen))))
        stream.synchronize()
        expect_equal(ran, [(value, bytes([value]) * 256) for value in range(32)], "what the host functions saw")


@check("ORDER-04", unordered=True)
def a_stream_waits_for_another(env: Env) -> None:
    for how in ("an event", "the event of a fill", "the stream"):
        stream, behind = env.stream(), env.stream()
        with device_ends(env) as ends, env.latch(stream) as held:
            expected = NEW
            if how == "an event":
                behind.wait(stream.record())
            elif how == "the event of a fill":
                behind.wait(ends.source.fill(3, stream=stream))
                expected = b"\x03" * NBYTES
            else:
                behind.wait(stream)
            ends.target.copy_from(ends.source, stream=behind)
            expect(not behind.query(), f"a stream that waits for {how} says that it is done")
            expect_bytes(ends.contents(), OLD, f"the target of a copy behind {how}")
            held.release()
            behind.synchronize()
            expect_bytes(ends.contents(), expected, f"the target of a copy behind {how}, done")


@check("ORDER-05")
def a_wait_is_for_the_mark_at_that_moment(env: Env) -> None:
    stream, behind = env.stream(), env.stream()
    with device_ends(env) as ends, env.pm.Event(env.device) as event:
        event.record(stream)
        behind.wait(event)
        with env.latch(stream):
            event.record(stream)
            ends.target.copy_from(ends.source, stream=behind)
            behind.synchronize()
            expect(not event.query(), "an event that was recorded again behind a latch says that it is done")
        expect_bytes(ends.contents(), NEW, "the target of a copy that waits for an earlier mark")


@check("ORDER-05")
def nobody_waits_for_an_event_never_recorded(env: Env) -> None:
    stream, behind = env.stream(), env.stream()
    with device_ends(env) as ends, env.pm.Event(env.device) as event, env.latch(stream):
        behind.wait(event)
        ends.target.copy_from(ends.source, stream=behind)
        behind.synchronize()
        expect_bytes(ends.contents(), NEW, "the target of a copy that waits for no mark")


def _is_free_of(env: Env, held: Any, stream: Any, what: str) -> None:
    """Shows that a stream works while another is held."""
    with device_ends(env) as ends, env.latch(held):
        ends.target.copy_from(ends.source, stream=stream)
        stream.synchronize()
        expect(not held.query(), f"{what}: the one that is held says that it is done")
        expect_bytes(ends.contents(), NEW, f"{what}: the target of a copy")


def _waits_for(env: Env, held: Any, stream: Any, what: str) -> None:
    """Shows that a stream does not work while another is held."""
    with device_ends(env) as ends, env.latch(held) as latch:
        done = ends.target.copy_from(ends.source, stream=stream)
        expect(not done.query(), f"{what}: a copy that cannot have begun says that it is done")
        expect_bytes(ends.contents(), OLD, f"{what}: the target of a copy that cannot have begun")
        latch.release()
        done.synchronize()
        expect_bytes(ends.contents(), NEW, f"{what}: the target of a copy that is done")


@check("ORDER-06")
def streams_do_not_wait_for_each_other_unasked(env: Env) -> None:
    _is_free_of(env, env.stream(), env.stream(), "two streams")


@check("ORDER-07", unordered=True)
def the_default_stream_and_blocking_streams(env: Env) -> None:
    default, blocking = env.device.default_stream, env.stream(nonblocking=False)
    _waits_for(env, blocking, default, "the default stream behind a blocking stream")
    _waits_for(env, default, blocking, "a blocking stream behind the default stream")
    _waits_for(env, default, env.device.per_thread_stream, "a per-thread stream behind the default stream")
    _waits_for(env, env.device.per_thread_stream, default, "the default stream behind a per-thread stream")


@check("ORDER-08")
def streams_that_are_free_of_each_other(env: Env) -> None:
    default = env.device.default_stream
    _is_free_of(env, default, env.stream(), "a nonblocking stream beside the default stream")
    _is_free_of(env, env.stream(), default, "the default stream beside a nonblocking stream")
    _is_free_of(env, env.stream(nonblocking=False), env.stream(nonblocking=False), "two blocking streams")


@check("ORDER-09")
def a_blocking_call_comes_after_what_was_declared(env: Env, resource: Any) -> None:
    stream, other = env.stream(), env.resource("pinned")
    with env.allocate(resource, NBYTES) as buf, env.allocate(other, NBYTES) as source:
        env.write(source, NEW)
        for value, call, expected in (
            (1, lambda: None, b"\x01" * NBYTES),
            (2, lambda: buf.fill(3), b"\x03" * NBYTES),
            (4, lambda: env.pm.copy(buf, source), NEW),
            (5, lambda: env.write(buf, OLD), OLD),
        ):
            with env.latch(stream) as held:
                buf.fill(value, stream=stream)
                held.release_soon(0.01)
                call()
                expect_bytes(env.read(buf), expected, "memory that was written behind declared work")
                expect(stream.query(), "a blocking call returned before the work declared on its memory was done")


@check("ORDER-10")
def a_device_waits_for_all_its_streams(env: Env) -> None:
    stream, another = env.stream(), env.stream(nonblocking=False)
    with device_ends(env) as ends, env.latch(stream) as held:
        done = ends.target.copy_from(ends.source, stream=stream)
        another.wait(done)
        behind = another.record()
        held.release_soon()
        env.device.synchronize()
        expect(done.query() and behind.query(), "a device that was waited for has unfinished work")
        expect_bytes(ends.contents(), NEW, "the target of the copy")


@check("ORDER-26")
def a_prefetch_is_in_stream_order(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, NEW)
        with env.latch(stream) as held:
            done = [buf.prefetch(env.device, stream=stream), buf.prefetch("host", stream=stream)]
            expect(not any(each.query() for each in done), "a prefetch that cannot have begun says that it is done")
            held.release()
            for each in done:
                each.synchronize()
        expect_bytes(env.read(buf), NEW, "memory that was prefetched")


@check("ORDER-26")
def prefetches_between_fills(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf, env.allocate(env.resource("pinned"), NBYTES) as seen:
        for value in range(4):
            buf.fill(value, stream=stream)
            buf.prefetch("host" if value % 2 else env.device, stream=stream)
        seen.copy_from(buf, stream=stream)
        stream.synchronize()
        expect_bytes(env.read(seen), b"\x03" * NBYTES, "memory that was copied behind fills and prefetches")
