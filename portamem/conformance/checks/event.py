# SPDX-License-Identifier: MIT
"""Shows the clauses of streams and events."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW, OLD, Ends, device_ends
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.reported import unraisable
from portamem.conformance.witness.base import Witness
from portamem.errors import Error


@check("EVENT-01")
def a_new_stream(env: Env) -> None:
    for nonblocking in (True, False):
        stream = env.stream(nonblocking=nonblocking)
        expect(stream.handle != 0, "a stream's handle is 0")
        expect_equal(stream.device, env.device, "a stream's device")
        expect_equal(stream.backend, env.pm.backend, "a stream's backend")
        expect_equal(stream.is_nonblocking, nonblocking, "is_nonblocking")
        expect_equal((stream.is_default, stream.is_closed), (False, False), "is_default and is_closed")
        expect_equal(stream.capture_status, "none", "capture_status")
        expect(stream.query(), "a new stream is not done")
        stream.synchronize()
    expect(env.stream().is_nonblocking, "a stream is blocking where nothing was asked for")
    for default in (env.device.default_stream, env.device.per_thread_stream):
        expect_equal((default.is_default, default.is_nonblocking), (True, False), "is_default and is_nonblocking")
    with refused(ValueError, Error):
        env.pm.Stream(env.pm.device_count())


@check("EVENT-02")
def priorities(env: Env) -> None:
    least, greatest = env.device.stream_priority_range
    expect(greatest <= least, f"the range of priorities is {least} to {greatest}: lower numbers are greater")
    for priority in range(greatest, least + 1):
        expect_equal(env.stream(priority=priority).priority, priority, "priority")
    expect_equal(env.stream(priority=greatest - 1000).priority, greatest, "priority, asked for above the greatest")
    expect_equal(env.stream(priority=least + 1000).priority, least, "priority, asked for below the least")


@check("EVENT-02")
def priorities_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    least, greatest = env.device.stream_priority_range
    asked = (*range(greatest, least + 1), greatest - 1000, least + 1000)
    for priority in asked:
        stream = env.stream(priority=priority)
        wanted = min(max(priority, greatest), least)
        expect_equal(witness.stream_priority(stream.handle), wanted, f"the runtime's priority, {priority} asked for,")


@check("EVENT-03")
def identities(env: Env) -> None:
    identities = set()
    for _ in range(64):
        with env.pm.Stream(env.device) as stream:
            identities.add(stream.identity)
            expect_equal(stream.identity, stream.identity, "a stream's identity")
    expect_equal(len(identities - {0}), 64, "the number of identities of 64 streams")
    one, other = env.stream(), env.stream()
    expect(one == one and one != other and one != one.handle, "streams do not compare as they should")
    expect_equal({one: 1, other: 2}[one], 1, "what a stream is the key of")


@check("EVENT-04")
def a_closed_stream(env: Env) -> None:
    stream = env.pm.Stream(env.device)
    identity = stream.identity
    stream.close()
    stream.close()
    expect(stream.is_closed, "a stream is not closed after close")
    expect_equal((stream.identity, stream.device), (identity, env.device), "who a closed stream was")
    with env.allocate(env.resource("device"), 256) as buf:
        uses: tuple[Callable[[], object], ...] = (
            lambda: stream.handle,
            lambda: stream.query(),
            lambda: stream.synchronize(),
            lambda: stream.record(),
            lambda: stream.wait(env.device.default_stream),
            lambda: stream.launch_host_func(lambda: None),
            lambda: stream.begin_capture(),
            lambda: stream.is_nonblocking,
            lambda: stream.__cuda_stream__(),
            lambda: buf.fill(1, stream=stream),
        )
        for use in uses:
            with refused(ValueError, saying="closed"):
                use()
    for default in (env.device.default_stream, env.device.per_thread_stream):
        with refused(ValueError, saying="default stream"):
            default.close()
        default.synchronize()


class _Owner:
    """Something that can be seen to live."""


@check("EVENT-05")
def a_stream_of_a_handle(env: Env) -> None:
    owner, stream = _Owner(), env.stream()
    alive = weakref.ref(owner)
    borrowed = env.pm.Stream.from_handle(stream.handle, device=env.device, owner=owner)
    expect_equal(borrowed.handle, stream.handle, "the handle of a stream made of one")
    with env.latch(stream) as held:
        expect(not borrowed.query(), "another queue than the stream whose handle it was made of")
        held.release()
        borrowed.synchronize()
        expect(stream.query(), "a stream whose other self was waited for is not done")
    del owner
    gc.collect()
    expect(alive() is not None, "the owner was let go of before the stream")
    borrowed.close()
    expect(borrowed.is_closed and not stream.is_closed, "closing a borrowed stream closed the other")
    stream.synchronize()
    del borrowed
    gc.collect()
    expect(alive() is None, "the owner is kept after the stream is gone")


@check("EVENT-05")
def an_event_of_a_handle(env: Env) -> None:
    owner, stream = _Owner(), env.stream()
    alive = weakref.ref(owner)
    with env.pm.Event(env.device) as event:
        borrowed = env.pm.Event.from_handle(event.handle, device=env.device, owner=owner)
        del owner
        with env.latch(stream) as held:
            event.record(stream)
            expect(not borrowed.query(), "another event than the one whose handle it was made of")
            held.release()
            borrowed.synchronize()
        gc.collect()
        expect(alive() is not None, "the owner was let go of before the event")
        borrowed.close()
        expect(event.query() and not event.is_closed, "closing a borrowed event closed the other")
    del borrowed
    gc.collect()
    expect(alive() is None, "the owner is kept after the event is gone")
    with refused(ValueError):
        env.pm.Event.from_handle(0, device=env.device)


@check("EVENT-06")
def handles_that_are_reserved(env: Env) -> None:
    for handle in (0, 1):
        stream = env.pm.Stream.from_handle(handle, device=env.device)
        expect_equal(stream, env.device.default_stream, f"the stream of handle {handle}")
        stream.synchronize()
    own = env.pm.Stream.from_handle(2, device=env.device)
    expect_equal(own, env.device.per_thread_stream, "the stream of handle 2")
    own.synchronize()


@check("EVENT-10")
def host_functions(env: Env) -> None:
    stream, ran = env.stream(), []

    class Function:
        def __init__(self, number: int) -> None:
            self.number = number

        def __call__(self) -> None:
            ran.append((self.number, threading.get_ident() == caller))

    caller = threading.get_ident()
    functions = [Function(number) for number in range(100)]
    alive = [weakref.ref(function) for function in functions]
    with env.latch(stream):
        for function in functions:
            stream.launch_host_func(function)
        del function, functions
        gc.collect()
        expect(all(each() is not None for each in alive), "a host function was let go of before it ran")
        expect_equal(ran, [], "the list of what ran behind a latch")
    stream.synchronize()
    expect_equal(ran, [(number, False) for number in range(100)], "which functions ran, and on the caller's thread")
    gc.collect()
    expect(not any(each() for each in alive), "a host function is kept after it ran")
    with refused(TypeError, saying="callable"):
        stream.launch_host_func(42)


@check("EVENT-11")
def a_host_function_that_raises(env: Env) -> None:
    stream, ran = env.stream(), []

    def broken() -> None:
        raise RuntimeError("broken on purpose")

    with unraisable() as reported:
        stream.launch_host_func(broken)
        stream.launch_host_func(lambda: ran.append(True))
        stream.synchronize()
    expect_equal(reported, ["RuntimeError: broken on purpose"], "what sys.unraisablehook was told")
    expect_equal(ran, [True], "what ran after the host function that raised")


@check("EVENT-12")
def a_new_event(env: Env) -> None:
    for options in ({}, {"timing": True}, {"blocking": True}, {"timing": True, "blocking": True}):
        with env.pm.Event(env.device, **options) as event:
            expect(event.handle != 0, "an event's handle is 0")
            expect_equal(event.device, env.device, "an event's device")
            expect(event.query() and event.is_done, "an event that was never recorded is not done")
            event.synchronize()


@check("EVENT-13")
def an_event_is_done_with_the_work_before_it(env: Env) -> None:
    for blocking in (False, True):
        stream = env.stream()
        with env.pm.Event(env.device, blocking=blocking) as event, stream.record() as early:
            event.record(stream)
            event.synchronize()
            with env.latch(stream) as held:
                expect(early.query() and event.query(), "an event waits for what was queued after it")
                expect(stream.record(event) is event, "record answers another event than it was given")
                made = stream.record()
                expect(not (event.query() or event.is_done or made.query()), "an event behind a latch is done")
                held.release_soon(0.01)
                event.synchronize()
                expect(not held.timed_out and event.query() and event.is_done, "an event that was waited for")
                made.synchronize()
                made.close()
    with refused(TypeError):
        stream.record(stream)


@check("EVENT-13")
def an_event_has_seen_the_bytes(env: Env) -> None:
    stream = env.stream()
    with device_ends(env) as ends:
        for _ in range(8):
            env.write(ends.target, OLD)
            ends.target.copy_from(ends.source, stream=stream)
            with stream.record() as event:
                event.synchronize()
                expect_bytes(ends.contents(), NEW, "the target of a copy before an event that is done")


@check("EVENT-14")
def without_a_stream_it_is_the_default_one(env: Env) -> None:
    with env.pm.Event(env.device) as event:
        with env.latch(env.device.default_stream) as held:
            event.record()
            expect(not event.query(), "an event recorded nowhere in particular does not wait for the default stream")
            held.release()
        event.synchronize()
        with env.latch(env.stream()):
            event.record()
            event.synchronize()


@check("EVENT-15")
def elapsed_time(env: Env) -> None:
    for blocking in (False, True):
        stream = env.stream()
        begun = time.perf_counter()
        with (
            env.pm.Event(env.device, timing=True, blocking=blocking) as start,
            env.pm.Event(env.device, timing=True, blocking=blocking) as end,
        ):
            start.record(stream)
            stream.launch_host_func(lambda: time.sleep(0.02))
            end.record(stream)
            end.synchronize()
            took = (time.perf_counter() - begun) * 1e3
            found = start.elapsed_time(end)
            expect(isinstance(found, float), f"the time is a {type(found).__name__}")
            expect(19 <= found <= 1.1 * took + 5, f"{found} ms between events around 20 ms, within {took} ms in all")


@check("EVENT-16")
def where_there_is_no_elapsed_time(env: Env) -> None:
    stream = env.stream()
    with env.pm.Event(env.device, timing=True) as start, env.pm.Event(env.device, timing=True) as end:
        start.record(stream)
        with env.latch(stream) as held:
            end.record(stream)
            with refused(Error, name="NotReady"):
                start.elapsed_time(end)
            held.release()
        end.synchronize()
        with stream.record() as untimed:
            untimed.synchronize()
            for first, last in ((start, untimed), (untimed, end)):
                with refused(ValueError, saying="timing=True"):
                    first.elapsed_time(last)


@check("EVENT-17")
def a_closed_event(env: Env) -> None:
    stream = env.stream()
    behind = env.stream()
    with device_ends(env) as ends, env.latch(stream) as held:
        event = stream.record()
        behind.wait(event)
        done = ends.target.copy_from(ends.source, stream=behind)
        event.close()
        event.close()
        expect(event.is_closed, "an event is not closed after close")
        expect(not done.query(), "closing an event let go on who waits for it")
        held.release()
        done.synchronize()
    uses: tuple[Callable[[], object], ...] = (
        lambda: event.handle,
        lambda: event.device,
        lambda: event.query(),
        lambda: event.is_done,
        lambda: event.synchronize(),
        lambda: event.record(stream),
        lambda: stream.record(event),
        lambda: stream.wait(event),
    )
    for use in uses:
        with refused(ValueError, saying="closed"):
            use()


@check("EVENT-18")
def waiting_across_devices(env: Env) -> None:
    there, here = env.stream(env.other_device), env.stream()
    with Ends(env, env.resource("pinned"), env.resource("device")) as ends:
        for as_event in (True, False):
            env.write(ends.target, OLD)
            with env.latch(there) as held:
                here.wait(there.record() if as_event else there)
                done = ends.target.copy_from(ends.source, stream=here)
                expect(not done.query(), "a stream does not wait for another device's")
                held.release()
                done.synchronize()
            expect_bytes(ends.contents(), NEW, "the target of a copy behind another device's work")
    with env.pm.Event(env.device) as event, refused(Error, ValueError):
        event.record(there)


@check("EVENT-19")
def progress_as_the_witness_sees_it(env: Env, witness: Any) -> None:
    stream = env.stream()
    with env.allocate(env.resource("device"), NBYTES, stream) as buf:
        with env.latch(stream) as held:
            done = buf.fill(1, stream=stream)
            expect(not witness.stream_is_done(stream.handle), "a stream that is held is done")
            expect(not witness.event_is_done(done.handle), "an event behind a latch is done")
            held.release()
            done.synchronize()
        expect(witness.event_is_done(done.handle), "an event that was waited for is not done")
        stream.synchronize()
        expect(witness.stream_is_done(stream.handle), "a stream that was waited for is not done")
