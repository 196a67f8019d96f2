# SPDX-License-Identifier: MIT
"""Shows the clauses of stream order that are about memory: what keeps it, when it goes back, and which stream gets it
next."""

from __future__ import annotations

import array
import gc
import weakref
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW, OLD, other_end
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused


def expect_filled(env: Env, buffers: list[Any], value: int, what: str) -> None:
    """Every buffer holds the value it was filled with; closes them."""
    for buf in buffers:
        expect_bytes(env.read(buf), bytes([value]) * buf.nbytes, what)
        buf.close()


@check("ORDER-11")
def a_copy_keeps_its_source(env: Env, resource: Any) -> None:
    stream, home, third = env.stream(), env.stream(), env.stream()
    with other_end(env, resource).allocate(NBYTES, stream=home) as target:
        source = resource.allocate(NBYTES, stream=home)
        env.write(source, NEW)
        with env.latch(stream) as held:
            target.copy_from(source, stream=stream)
            del source
            gc.collect()
            held.release_soon()
            others = [resource.allocate(NBYTES, stream=third) for _ in range(3)]
            for other in others:
                other.fill(0xFF, stream=third)
        expect_bytes(env.read(target), NEW, "the target of a copy whose source was let go of")
        expect_filled(env, others, 0xFF, "memory allocated beside the copy")


@check("ORDER-11")
def a_copy_keeps_its_target(env: Env, resource: Any) -> None:
    stream, home, third = env.stream(), env.stream(), env.stream()
    with other_end(env, resource).allocate(NBYTES, stream=home) as source:
        target = resource.allocate(NBYTES, stream=home)
        env.write(source, NEW)
        with env.latch(stream) as held:
            target.copy_from(source, stream=stream)
            del target
            gc.collect()
            held.release_soon()
            others = [resource.allocate(NBYTES, stream=third) for _ in range(3)]
            for other in others:
                other.fill(0xFF, stream=third)
        stream.synchronize()
        expect_filled(env, others, 0xFF, "memory allocated while a copy writes to what was let go of")


@check("ORDER-12")
def a_copy_keeps_python_objects(env: Env) -> None:
    stream = env.stream()
    source, target = array.array("B", NEW), array.array("B", OLD)
    alive = [weakref.ref(source), weakref.ref(target)]
    with env.allocate(env.resource("device"), NBYTES, stream) as buf:
        with env.latch(stream) as held:
            held.release_soon()  # a copy of such memory may wait for the stream
            env.pm.copy(buf, source, stream=stream)
            env.pm.copy(target, buf, stream=stream)
            del source, target
        expect_bytes(env.read(buf), NEW, "the target of a copy from a Python object that was let go of")
    stream.synchronize()
    expect(eventually(lambda: gc.collect() >= 0 and not any(each() for each in alive)), "the objects are never let go")


@check("ORDER-13")
def closing_does_not_wait(env: Env, resource: Any) -> None:
    stream, other = env.stream(), env.stream()
    before = resource.used
    buf = resource.allocate(NBYTES, stream=stream)
    with env.latch(other):
        buf.close()
        stream.synchronize()
        expect_equal(resource.used, before, "used, with another stream held")
    buf = resource.allocate(NBYTES, stream=stream)
    with env.latch(stream):
        buf.fill(1, stream=stream)
        buf.close()
        expect(buf.is_closed and not stream.query(), "close of stream-ordered memory waited for its stream")


@check("ORDER-14")
def memory_goes_back_behind_declared_streams(env: Env, resource: Any) -> None:
    home, user, third = env.stream(), env.stream(), env.stream()
    buf = resource.allocate(NBYTES, stream=home)
    home.synchronize()
    buf.record_stream(user)
    with env.latch(user):
        buf.fill(1, stream=user)
        buf.close()
        expect(not home.record().query(), "the free does not wait for the stream that was declared")
        others = [resource.allocate(NBYTES, stream=stream) for stream in (home, third)]
        for other, stream in zip(others, (home, third), strict=True):
            other.fill(2, stream=stream)
    user.synchronize()
    expect_filled(env, others, 2, "memory allocated while another's declared use was unfinished")


@check("ORDER-14")
def portamems_own_calls_declare_themselves(env: Env, resource: Any) -> None:
    env.need_pending_copies(resource)
    home, user = env.stream(), env.stream()
    with env.allocate(other_end(env, resource), NBYTES) as source:
        env.write(source, b"\x01" * NBYTES)
        source.device.synchronize()
        rows = {"width": 256, "height": NBYTES // 256, "dst_pitch": 256, "src_pitch": 256}
        uses: tuple[Callable[[Any], object], ...] = (
            lambda buf: buf.fill(1, stream=user),
            lambda buf: buf.copy_from(source, stream=user),
            lambda buf: env.pm.copy_2d(buf, source, **rows, stream=user),
            lambda buf: env.pm.copy_3d(buf, source, width=256, height=4, depth=NBYTES // 1024, stream=user),
        )
        for use in uses:
            buf = resource.allocate(NBYTES, stream=home)
            home.synchronize()
            with env.latch(user):
                use(buf)
                buf.close()
                other = resource.allocate(NBYTES, stream=home)
                other.fill(2, stream=home)
                expect(not home.query(), "the free does not wait for a stream on which the memory is written")
            user.synchronize()
            expect_filled(env, [other], 2, "memory allocated while another's use was unfinished")


def _undeclared(env: Env, buf: Any) -> Any:
    """The same memory under another name: its uses are declared on that, and not on the buffer."""
    return env.pm.Buffer.from_handle(buf.handle, buf.nbytes, owner=None, device=env.device)


@check("ORDER-15")
def memory_goes_back_on_the_stream_that_is_named(env: Env, resource: Any) -> None:
    home, named = env.stream(), env.stream()
    buf = resource.allocate(NBYTES, stream=home)
    env.write(buf, OLD)
    home.synchronize()
    with env.latch(named) as held:
        done = named.record()
        held.release_soon()
        if resource.is_stream_ordered or env.kind_of(resource).keeps:
            with _undeclared(env, buf) as alias:
                done = alias.fill(1, stream=named)
                buf.close(stream=named)
                other = resource.allocate(NBYTES, stream=home)
                other.fill(2, stream=home)
                eventually(home.query, seconds=0.02)  # a fill that waits for nothing is done before the other one
        else:
            buf.close(stream=named)
            expect(done.query(), "close returned before the work on the stream that it named was done")
            other = resource.allocate(NBYTES)
            other.fill(2)
    named.synchronize()
    expect_filled(env, [other], 2, "memory allocated after a close on a stream with unfinished work")


@check("ORDER-16")
def closing_waits_for_declared_work(env: Env, resource: Any) -> None:
    stream = env.stream()
    buf = env.allocate(resource, NBYTES)
    with env.latch(stream) as held:
        done = buf.fill(0xAA, stream=stream)
        held.release_soon()
        buf.close()
        expect(done.query(), "close returned while a fill of the memory was unfinished")
    buf = env.allocate(resource, NBYTES)
    buf.record_stream(stream)
    with env.latch(stream) as held:
        done = stream.record()
        held.release_soon()
        buf.close()
        expect(done.query(), "close returned while a stream that was declared was unfinished")
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("ORDER-17")
def host_memory_in_use_is_not_handed_out(env: Env, resource: Any) -> None:
    if resource.kind == "managed":  # without it the host may touch none while the device works
        env.need(env.device.capabilities.concurrent_managed_access, "concurrent_managed_access")
    stream = env.stream()
    with other_end(env, resource).allocate(NBYTES, stream=stream) as target:
        for forget in (False, True):
            source = env.allocate(resource, NBYTES)
            env.write(source, NEW)
            with env.latch(stream) as held:
                held.release_soon()
                target.copy_from(source, stream=stream)
                if not forget:
                    source.close()
                del source
                with env.allocate(resource, NBYTES) as other, memoryview(other) as writable:
                    writable[:] = b"\xff" * NBYTES
            expect_bytes(env.read(target), NEW, "the target of a copy whose source was let go of")
    expect(eventually(lambda: resource.live_buffers == 0), "memory that was let go of is never given back")


@check("ORDER-18")
def memory_goes_from_stream_to_stream(env: Env, resource: Any) -> None:
    for with_event in (False, True):
        first_stream, second_stream = env.stream(), env.stream()
        first = resource.allocate(NBYTES, stream=first_stream)
        with env.latch(first_stream):
            first.fill(1, stream=first_stream)
            first.close(stream=first_stream)
            if with_event:
                second_stream.wait(first_stream.record())
            second = resource.allocate(NBYTES, stream=second_stream)
            done = second.fill(2, stream=second_stream)
            if with_event:
                expect(not done.query(), "work behind an event happened before it")
        done.synchronize()
        first_stream.synchronize()
        expect_filled(env, [second], 2, "memory that another stream had freed")


@check("ORDER-19")
def a_stream_gets_its_own_memory_again(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.latch(stream):
        resource.allocate(NBYTES, stream=stream).close()
        reserved = resource.reserved
        for value in range(200):
            with resource.allocate(NBYTES, stream=stream) as buf:
                buf.fill(value, stream=stream)
        expect_equal(resource.reserved, reserved, "reserved after 200 turns of a loop")


@check("ORDER-20")
def a_declared_stream_is_behind_the_memorys_own(env: Env, resource: Any) -> None:
    home, user = env.stream(), env.stream()
    with resource.allocate(NBYTES, stream=home) as buf:
        with env.latch(home):
            buf.fill(1, stream=home)
            buf.record_stream(user)
            expect(not user.query(), "a stream that was declared does not wait for the memory's own")
            done = buf.fill(2, stream=user)
            expect(not done.query(), "work of a stream that was declared happened before the memory's own")
        done.synchronize()
        expect_bytes(env.read(buf), b"\x02" * NBYTES, "memory that was filled on one stream and then on another")


@check("ORDER-21")
def a_buffer_outlives_its_stream(env: Env, resource: Any) -> None:
    stream = env.pm.Stream(env.device)
    identity = stream.identity
    kept, left = resource.allocate(NBYTES, stream=stream), resource.allocate(NBYTES, stream=stream)
    kept.fill(4, stream=stream)
    del stream
    gc.collect()
    expect(not kept.stream.is_closed and kept.stream.identity == identity, "a buffer lost its stream")
    left.fill(5, stream=left.stream)
    kept.stream.close()
    expect_bytes(env.read(kept), b"\x04" * NBYTES, "memory whose stream is closed")
    expect_bytes(env.read(left), b"\x05" * NBYTES, "memory whose stream is closed")
    kept.fill(6)
    expect_bytes(env.read(kept), b"\x06" * NBYTES, "memory that was filled after its stream was closed")
    with refused(ValueError, saying="closed"):
        kept.fill(7, stream=kept.stream)
    kept.close()
    left.close()
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("ORDER-21")
def a_closed_stream_is_waited_for(env: Env, resource: Any) -> None:
    stream, home = env.pm.Stream(env.device), env.stream()
    buf, closed = resource.allocate(NBYTES, stream=stream), resource.allocate(NBYTES, stream=home)
    with env.latch(stream) as held:
        done = [each.fill(8, stream=stream) for each in (buf, closed)]
        held.release_soon()
        stream.close()
        expect_bytes(env.read(buf), b"\x08" * NBYTES, "memory with unfinished work on a stream that is closed")
        closed.close()
        with resource.allocate(NBYTES, stream=home) as other:
            other.fill(9, stream=home)
            expect_bytes(env.read(other), b"\x09" * NBYTES, "memory after a close behind a stream that is closed")
    expect(all(each.query() for each in done), "work on a stream that was closed is not done")
    buf.close()


@check("ORDER-22")
def work_outlives_its_stream(env: Env) -> None:
    pinned, device, home = env.resource("pinned"), env.resource("device"), env.stream()
    with pinned.allocate(NBYTES, stream=home) as source, device.allocate(NBYTES, stream=home) as target:
        env.write(source, NEW)
        stream = env.pm.Stream(env.device)
        with env.latch(stream) as held:
            done = target.copy_from(source, stream=stream)
            held.release_soon()  # some vendors wait for a stream's work before they destroy it
            stream.close()
        done.synchronize()
        expect_bytes(env.read(target), NEW, "the target of a copy on a stream that was closed")


@check("ORDER-23")
def closing_a_stream_hands_its_frees_over(env: Env, resource: Any) -> None:
    before = resource.used
    stream = env.pm.Stream(env.device)
    buf = resource.allocate(NBYTES, stream=stream)
    with env.latch(stream) as held:
        buf.fill(1, stream=stream)
        buf.close()
        held.release_soon()
        stream.close()
    env.device.synchronize()
    expect_equal((resource.live_buffers, resource.used), (0, before), "live buffers and used bytes")
