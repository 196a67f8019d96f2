# SPDX-License-Identifier: MIT
"""Shows the clauses of freeing, and of frees that are wrong."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import KIB, pattern

NBYTES = 64 * KIB


def interrupt() -> None:
    """An exception of the caller's own, inside a with block."""
    raise KeyError("mine")


@check("FREE-01")
def closing_gives_back_once(env: Env, resource: Any) -> None:
    with env.allocate(resource, 4096) as keeper:
        buf = env.allocate(resource, 4096)
        buf.fill(1)
        expect(not buf.is_closed, "a new buffer is closed")
        for _ in range(3):
            buf.close()
            expect(buf.is_closed, "a closed buffer says that it is open")
            expect_equal((resource.live_buffers, resource.live_bytes), (1, 4096), "live buffers and bytes")
        env.write(keeper, pattern(4096))
        expect_bytes(env.read(keeper), pattern(4096), "the buffer beside it")
    for _ in range(200):  # memory that was not given back would add up
        with env.allocate(resource, NBYTES) as again:
            expect_equal(resource.live_bytes, NBYTES, "live bytes")
    again.close()


@check("FREE-02")
def memory_goes_back_by_itself(env: Env, resource: Any) -> None:
    with env.allocate(resource, 4096) as buf:
        buf.fill(1)
    expect(buf.is_closed and resource.live_buffers == 0, "the end of a with block did not close the buffer")
    with refused(KeyError, saying="mine"), env.allocate(resource, 4096) as buf:
        interrupt()
    expect(buf.is_closed and resource.live_buffers == 0, "an exception did not close the buffer")
    env.allocate(resource, 4096).fill(2)
    gc.collect()
    expect_soon(lambda: (resource.live_buffers, resource.live_bytes), (0, 0), "what nobody holds")
    buf = env.allocate(resource, 4096)
    alive = weakref.ref(buf)
    expect(alive() is buf, "a weak reference to a buffer is dead")
    del buf
    gc.collect()
    expect(alive() is None, "a weak reference to a buffer that nobody holds is alive")
    cycle: list[Any] = [env.allocate(resource, 4096)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    expect_soon(lambda: (resource.live_buffers, resource.live_bytes), (0, 0), "what only a cycle of garbage holds")


@check("FREE-03")
def closed_buffers_refuse(env: Env, resource: Any) -> None:
    stream = env.stream()
    closed = env.allocate(resource, 4096)
    closed.close()
    with env.allocate(resource, 4096) as other:
        other.fill(9)
        calls: dict[str, Callable[[], object]] = {
            "fill": lambda: closed.fill(0),
            "fill on a stream": lambda: closed.fill(0, stream=stream),
            "copy_from": lambda: closed.copy_from(other),
            "copy_to": lambda: closed.copy_to(other),
            "copy to it": lambda: other.copy_to(closed),
            "copy from it": lambda: other.copy_from(closed, stream=stream),
            "view": lambda: closed.view(),
            "slice": lambda: closed[:4],
            "handle": lambda: closed.handle,
            "release": lambda: closed.release(),
            "record_stream": lambda: closed.record_stream(stream),
            "pointer_info": lambda: env.pm.pointer_info(closed),
            "memoryview": lambda: memoryview(closed),
            "device": lambda: closed.device,
            "kind": lambda: closed.kind,
            "resource": lambda: closed.resource,
        }
        for call in calls.values():
            with refused(ValueError, BufferError, saying="closed"):
                call()
        expect_equal(closed.exports, 0, "exports of a closed buffer")
        expect_bytes(env.read(other), b"\x09" * 4096, "the buffer that was to be its other end")


@check("FREE-08")
def released_memory_stays_out(env: Env, resource: Any) -> None:
    stream = resource.device.default_stream if resource.is_stream_ordered else None
    buf = env.allocate(resource, 4096)
    env.write(buf, pattern(4096))
    address = buf.handle
    expect_equal(buf.release(), address, "what release answers")
    expect(buf.is_closed, "a released buffer is open")
    expect_equal((resource.live_buffers, resource.live_bytes), (1, 4096), "live buffers and bytes of released memory")
    with refused(BufferError, saying="1 live"):
        resource.close()
    with env.pm.Buffer.from_handle(address, 4096, device=resource.device) as again:
        expect_bytes(env.read(again), pattern(4096), "released memory")
    buf.close()
    expect_equal(resource.live_buffers, 1, "live buffers after closing what was released")
    resource.deallocate(address, 4096, stream=stream)
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes after deallocate")


@check("FREE-08")
def what_is_in_use_is_not_released(env: Env, resource: Any) -> None:
    buf = env.allocate(resource, 4096)
    part = buf[:16]
    with refused(BufferError, saying="export"):
        buf.release()
    with refused(ValueError, saying="sub-view"):
        part.release()
    buf.fill(4)
    expect_bytes(env.read(part), b"\x04" * 16, "the part after both refusals")
    part.close()
    buf.close()
    expect_equal(resource.live_buffers, 0, "live buffers")


def _other_end(env: Env, resource: Any) -> Any:
    """Memory to and from which a copy on a stream does not block its caller: between hosts it always may."""
    return env.resource("device" if resource.device_id == -1 else "pinned").allocate(NBYTES)


@check("FREE-09")
def closing_waits_for_declared_work(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with _other_end(env, resource) as target:
        for drop in (False, True):
            source = env.allocate(resource, NBYTES)
            env.write(source, data)
            target.fill(0)
            held = env.latch(stream)
            held.release_soon()
            done = target.copy_from(source, stream=stream)
            if drop:  # the stream keeps what a copy needs: nothing is lost, and nothing waits
                del source
                done.synchronize()
            else:
                source.close()
                expect(done.query(), "close returned before the copy that it had to wait for")
            with env.allocate(resource, NBYTES) as intruder:
                intruder.fill(0xFF)
            expect_bytes(env.read(target), data, "the target of a copy whose source was closed meanwhile")


def _let_run(resource: Any, stream: Any) -> None:
    """Lets work run that waits for nothing, before the latch is released. A fill that comes too early then runs before
    the work that it spoils."""
    if resource.is_stream_ordered:
        eventually(stream.query, seconds=0.05)


@check("FREE-10")
def memory_goes_back_behind_its_work(env: Env, resource: Any) -> None:
    if resource.is_stream_ordered:
        env.need_pending_copies(resource)
    home, user, data = env.stream(), env.stream(), pattern(NBYTES)
    with _other_end(env, resource) as target:
        for named in (True, False):
            source = env.allocate(resource, NBYTES, home)
            env.write(source, data)
            target.fill(0)
            held = env.latch(user)
            if not resource.is_stream_ordered:
                held.release_soon()  # the copy, or the close, may wait for it
            target.copy_from(source, stream=user)
            source.close(stream=user if named else None)
            expect(source.is_closed, "the buffer is open")
            intruder = env.allocate(resource, NBYTES, home)
            intruder.fill(0xFF, stream=home)
            _let_run(resource, home)
            held.release()
            home.synchronize()
            user.synchronize()
            expect_bytes(env.read(target), data, "a copy out of memory that was closed while it was pending")
            expect_bytes(env.read(intruder), b"\xff" * NBYTES, "memory allocated meanwhile")
            intruder.close()
        # The other way round: closed on a stream that has nothing to do with it, while its own is at work.
        source = env.allocate(resource, NBYTES, home)
        env.write(source, data)
        target.fill(0)
        held = env.latch(home)
        if not resource.is_stream_ordered:
            held.release_soon()
        target.copy_from(source, stream=home)
        source.close(stream=user)
        intruder = env.allocate(resource, NBYTES, user)
        intruder.fill(0xFF, stream=user)
        _let_run(resource, user)
        held.release()
        home.synchronize()
        user.synchronize()
        expect_bytes(env.read(target), data, "a copy out of memory that was closed on another stream")
        expect_bytes(env.read(intruder), b"\xff" * NBYTES, "memory allocated on that stream")
        intruder.close(stream=home)
    home.synchronize()
    expect_equal(resource.live_buffers, 0, "live buffers")


@check("FREE-11")
def the_current_device_does_not_matter(env: Env, resource: Any) -> None:
    other, before = env.other_device, env.pm.Device.current()
    buf = env.allocate(resource, 4096)
    try:
        other.set_current()
        env.write(buf, pattern(4096))
        expect_bytes(env.read(buf), pattern(4096), "memory of a device that is not current")
        with env.allocate(resource, 100) as more:
            expect_equal(more.device, env.device, "the device of memory allocated meanwhile")
            more.fill(1)
            if resource.device_id >= 0:
                info = env.pm.pointer_info(more)
                expect(info.device_id in (env.ordinal, None) or info.kind == "managed", f"it lies elsewhere: {info!r}")
        buf.close()
        expect_equal(env.pm.Device.current(), other, "the current device after all that")
    finally:
        before.set_current()
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")


@check("FREE-12")
def any_thread_may_close(env: Env, resource: Any) -> None:
    buffers = [env.allocate(resource, 4096) for _ in range(16)]
    for buf in buffers:
        buf.fill(1)
    start, wrong = threading.Barrier(2), []

    def close_all() -> None:
        try:
            start.wait(10)
            for buf in list(buffers):
                buf.close()
        except BaseException as error:  # told by the check's own thread
            wrong.append(error)

    threads = [threading.Thread(target=close_all) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in wrong:
        raise error
    expect(all(buf.is_closed for buf in buffers), "a buffer is open")
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")
    dropped = [env.allocate(resource, 4096)]
    thread = threading.Thread(target=dropped.clear)
    thread.start()
    thread.join()
    gc.collect()
    expect_soon(
        lambda: (resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes dropped by a thread"
    )
