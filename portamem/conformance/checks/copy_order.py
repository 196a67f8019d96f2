# SPDX-License-Identifier: MIT
"""Shows the clauses of the order in which copies and fills run, and of what they keep alive."""

from __future__ import annotations

import gc
import time
import weakref
from functools import partial
from typing import Any

import numpy as np

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal
from portamem.conformance.kit.memory import KIB, pattern

NBYTES = 64 * KIB


def other_end(env: Env, resource: Any, nbytes: int = NBYTES) -> Any:
    """Memory to and from which a copy on a stream does not block its caller: between hosts it always may."""
    return env.resource("device" if resource.device_id == -1 else "pinned").allocate(nbytes)


def _opens_soon(resource: Any, latch: Any) -> None:
    """Pageable memory: a copy on a stream may wait for what is before it."""
    if resource.kind == "system":
        latch.release_soon()


@check("COPY-07")
def blocking_copies_run_behind_declared_work(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with other_end(env, resource) as other, env.allocate(resource, NBYTES) as buf:
        for number in range(3):
            buf.fill(0)
            env.write(other, data)
            held = env.latch(stream)
            held.release_soon()
            done = buf.copy_from(other, stream=stream)
            if number == 0:
                expect_bytes(env.read(buf), data, "memory read without a stream behind a copy to it")
            elif number == 1:
                other.fill(0xFF)  # the source of the pending copy: written only when that has read it
                expect_bytes(env.read(buf), data, "the target of a copy whose source was filled without a stream")
            else:
                buf.fill(7)
                expect_bytes(env.read(buf), b"\x07" * NBYTES, "memory filled without a stream behind a copy to it")
            expect(done.query(), "a blocking operation returned before work that was declared")


@check("COPY-08")
def copies_on_a_stream_return_at_once(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with other_end(env, resource) as other, env.allocate(resource, NBYTES, stream) as buf:
        buf.fill(0, stream=stream)
        env.write(other, data)
        stream.synchronize()
        held = env.latch(stream)
        first = buf.copy_from(other, stream=stream)
        second = other.fill(0xFF, stream=stream)
        third = buf[: NBYTES // 2].fill(3, stream=stream)
        expect(not any(done.query() for done in (first, second, third)), "work ran before the latch was released")
        held.release()
        third.synchronize()
        expect(first.query() and second.query(), "an event is done before one that came earlier")
        expect_bytes(env.read(buf), b"\x03" * (NBYTES // 2) + data[NBYTES // 2 :], "work of one stream, in its order")
        expect_bytes(env.read(other), b"\xff" * NBYTES, "the source, which was filled after it was copied from")


@check("COPY-09")
def copies_keep_their_ends(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with other_end(env, resource) as target:
        source = env.allocate(resource, NBYTES, stream)
        env.write(source, data)
        held = env.latch(stream)
        _opens_soon(resource, held)
        done = target.copy_from(source, stream=stream)
        del source
        gc.collect()
        done.record(env.stream())
        done.synchronize()  # which is no more about the copy
        if not resource.is_stream_ordered and resource.kind != "system":
            expect_equal(resource.live_buffers, 1, "live buffers: the source of a pending copy")
        held.release()
        stream.synchronize()
        expect_bytes(env.read(target), data, "the target of a copy whose source was dropped")
    expect(eventually(lambda: resource.live_buffers == 0), "the source was never let go")


@check("COPY-09")
def copies_keep_their_targets(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with other_end(env, resource) as source:
        env.write(source, data)
        held = env.latch(stream)
        held.release_soon()
        with env.allocate(resource, NBYTES, stream) as kept:
            target = env.allocate(resource, NBYTES, stream)
            target.copy_from(source, stream=stream)
            kept.copy_from(source, stream=stream)
            del target
            gc.collect()
            intruder = env.allocate(resource, NBYTES, stream)
            intruder.fill(0x55, stream=stream)
            stream.synchronize()
            expect_bytes(env.read(intruder), b"\x55" * NBYTES, "memory allocated while a copy to dropped memory ran")
            expect_bytes(env.read(kept), data, "memory beside it")
            intruder.close()
    expect(eventually(lambda: resource.live_buffers == 0), "the target was never let go")


def _is_dropped(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


@check("COPY-09")
def copies_keep_python_objects(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with env.allocate(resource, NBYTES, stream) as buf:
        array = np.frombuffer(data, np.uint8).copy()
        alive = weakref.ref(array)
        held = env.latch(stream)
        held.release_soon()
        buf.copy_from(array, stream=stream)
        del array
        stream.synchronize()
        expect_bytes(env.read(buf), data, "memory copied to from an object that was dropped")
        expect(eventually(partial(_is_dropped, alive)), "the object was never let go")


@check("COPY-10")
def a_copy_declares_its_use(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    home, user, data = env.stream(), env.stream(), pattern(NBYTES)
    with other_end(env, resource) as source, other_end(env, resource) as out:
        env.write(source, data)
        out.fill(0)
        buf = resource.allocate(NBYTES, stream=home)
        held = env.latch(home)
        buf.copy_from(source, stream=home)
        done = out.copy_from(buf, stream=user)
        expect(not done.query(), "a copy on another stream did not wait for the memory's own")
        held.release()
        done.synchronize()
        expect_bytes(env.read(out), data, "what a copy on another stream saw")
        out.fill(0)
        held = env.latch(user)
        out.copy_from(buf, stream=user)
        buf.close()
        with resource.allocate(NBYTES, stream=home) as intruder:
            intruder.fill(0xFF, stream=home)
            held.release()
            user.synchronize()
            home.synchronize()
            expect_bytes(env.read(out), data, "a copy out of memory that was closed while it was pending")
            expect_bytes(env.read(intruder), b"\xff" * NBYTES, "memory allocated meanwhile")


@check("COPY-10")
def memory_goes_back_behind_a_declared_use(env: Env, resource: Any) -> None:
    home, user = env.stream(), env.stream()
    buf = resource.allocate(NBYTES, stream=home)
    home.synchronize()
    held = env.latch(user)
    buf.fill(1, stream=user)
    buf.close()
    expect(not home.query(), "the memory went back before a fill on another stream")
    held.release()
    home.synchronize()
    expect_equal(resource.live_buffers, 0, "live buffers")


@check("COPY-10")
def record_stream_declares_a_use(env: Env, resource: Any) -> None:
    home, user, device = env.stream(), env.stream(), env.resource("device")
    with device.allocate(NBYTES) as other:
        buf = resource.allocate(NBYTES, stream=home)
        home.synchronize()
        held = env.latch(user)
        buf.record_stream(user)
        other.fill(2, stream=user)
        buf.close()
        expect(not home.query(), "the memory went back before work on a stream that was recorded")
        held.release()
        home.synchronize()
        user.synchronize()
        expect_bytes(env.read(other), b"\x02" * NBYTES, "the work on the recorded stream")
    with resource.allocate(16, stream=home) as buf:
        for wrong in (None, 42):
            try:
                buf.record_stream(wrong)
            except TypeError:
                continue
            expect(False, f"record_stream took {wrong!r}")


@check("COPY-21")
def synchronize_lets_go(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with other_end(env, resource) as target:
        for _ in range(3):
            sources = [resource.allocate(NBYTES) for _ in range(4)]
            for source in sources:
                env.write(source, data)
                target.copy_from(source, stream=stream)
            del source
            sources.clear()
            gc.collect()
            stream.synchronize()
            # This thread lets go of it, or a thread of portamem's own that was about to do so just then.
            expect(eventually(lambda: resource.live_buffers == 0), "a source was never let go")
            expect_equal(resource.live_bytes, 0, "live bytes after the last buffer went")
            expect_bytes(env.read(target), data, "the target")
        resource.close()
        expect(resource.is_closed, "the resource is open")


@check("COPY-21")
def what_was_kept_goes_by_itself(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with other_end(env, resource) as target:
        source = resource.allocate(NBYTES)
        env.write(source, data)
        done = target.copy_from(source, stream=stream)
        del source
        gc.collect()
        done.synchronize()
        expect(eventually(lambda: resource.live_buffers == 0), "the source was never let go")
        expect_bytes(env.read(target), data, "the target")


@check("COPY-27")
def dropped_ends_make_room(env: Env, resource: Any) -> None:
    stream = env.stream()
    limited = env.pm.LimitingAdaptor(resource, NBYTES)
    with other_end(env, resource) as target:
        for turn in range(5):
            done = target.copy_from(limited.allocate(NBYTES), stream=stream)
            done.synchronize()
            limited.allocate(NBYTES).close()
            expect_equal(limited.allocated, 0, f"bytes out of the limit in turn {turn}")


@check("COPY-27")
def dropped_registrations_make_room(env: Env, resource: Any) -> None:
    stream, host = env.stream(), bytearray(NBYTES)
    target = resource if resource.device_id != -1 else env.resource("device")
    with target.allocate(NBYTES) as memory:
        for _ in range(5):
            registration = env.pm.HostRegistration(host)
            done = memory.copy_from(registration, stream=stream)
            del registration
            done.synchronize()
            env.pm.HostRegistration(host).close()
        memory.copy_from(host, stream=stream).synchronize()

    def resized() -> bool:
        try:
            host.append(0)
        except BufferError:
            return False
        return True

    expect(eventually(resized), "a bytearray that a finished copy read stays exported")


@check("COPY-28")
def nothing_waits_for_dropped_ends(env: Env, resource: Any) -> None:
    stream, unrelated = env.stream(), env.stream()
    with (
        other_end(env, resource) as target,
        resource.allocate(NBYTES) as source,
        other_end(env, resource) as elsewhere,
    ):
        done = target.copy_from(resource.allocate(NBYTES), stream=stream)
        held = env.latch(stream)
        expect(eventually(done.query), "a copy has not run whose stream is held behind it")
        time.sleep(0.02)  # by now its source is on its way back
        elsewhere.fill(2, stream=unrelated).synchronize()
        for queue in (
            lambda: target.copy_from(source, stream=stream),
            lambda: target.fill(1, stream=stream),
            lambda: stream.launch_host_func(lambda: None),
            stream.record,
        ):
            queue()
        source.record_stream(stream)
        dropped = resource.allocate(NBYTES)
        target.copy_from(dropped, stream=stream)
        del dropped
        gc.collect()
        expect(not stream.query(), "a call that queues or drops has waited for the stream's work")
        held.release()
        stream.synchronize()
    expect(eventually(lambda: resource.live_buffers == 0), "a dropped buffer was never let go")
