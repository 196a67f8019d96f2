# SPDX-License-Identifier: MIT
"""Shows the clauses of stream capture."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW, OLD, device_ends
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.outcome import Failed, NotShown
from portamem.conformance.kit.threads import on_a_thread
from portamem.errors import Error

MODES = ("global", "thread_local", "relaxed")

Calls = dict[str, Callable[[], object]]


@contextmanager
def captured(stream: Any, mode: str = "global", *, during: str = "") -> Iterator[None]:
    """Captures a stream in the block; the capture has to be valid at its end, and the stream free again."""
    stream.begin_capture(mode)
    try:
        yield
    except BaseException:
        with suppress(Error, ValueError):  # the block's own error is the one to be told
            stream.end_capture()
        raise
    expect_equal(stream.capture_status, "active", f"capture_status after {during or 'the block'}, {mode}")
    stream.end_capture()
    expect_equal(stream.capture_status, "none", "capture_status after end_capture")


class Scene:
    """A stream to capture, another one, and memory of several kinds from before."""

    def __init__(self, env: Env) -> None:
        self.env, self.stream, self.other = env, env.stream(), env.stream()
        self.plain, self.pinned = env.resource("device"), env.resource("pinned")
        self.buf, self.host = self.plain.allocate(NBYTES), self.pinned.allocate(NBYTES)
        self.rows = self.plain.allocate_pitched(100, 4)
        self.used = self.plain.allocate(NBYTES)
        self.used_host = self.pinned.allocate(NBYTES)
        self.live = [self.buf, self.host, self.rows, self.used, self.used_host]
        for used in (self.used, self.used_host):
            used.fill(1, stream=self.stream)
        self.stream.synchronize()

    def close(self) -> None:
        self.env.device.synchronize()
        for buf in self.live:
            buf.close()


def _refuses(scene: Scene, calls: Calls) -> None:
    for mode in MODES:
        for name, call in calls.items():
            with captured(scene.stream, mode, during=name):
                try:
                    with refused(ValueError, BufferError, saying="captur"):
                        call()
                except Failed as failed:
                    raise Failed(f"{name}, {mode}: {failed}") from None
            expect(all(not buf.is_closed for buf in scene.live), f"{name}: memory was closed by a refused call")
            scene.buf.fill(1, stream=scene.stream).synchronize()
            expect_bytes(scene.env.read(scene.buf), b"\x01" * NBYTES, f"memory that was filled after {name}")


@check("CAPTURE-01")
def a_capture_begins_and_ends(env: Env) -> None:
    other = env.stream()
    for nonblocking in (True, False):
        stream = env.stream(nonblocking=nonblocking)
        expect_equal(stream.capture_status, "none", "capture_status of a new stream")
        for mode in MODES:
            with env.latch(other):
                with captured(stream, mode):
                    expect_equal(stream.capture_status, "active", "capture_status")
                expect(not other.query(), "a capture waits for another stream")
            with device_ends(env) as ends:
                ends.target.copy_from(ends.source, stream=stream).synchronize()
                expect(stream.query(), "a stream that was captured is not done")
                expect_bytes(ends.contents(), NEW, "the target of a copy after a capture")


@check("CAPTURE-02")
def captures_that_cannot_be(env: Env) -> None:
    stream = env.stream()
    for wrong in ("local", "", None, 0):
        with refused(ValueError, TypeError):
            stream.begin_capture(wrong)
        expect_equal(stream.capture_status, "none", "capture_status after a refused beginning")
    with refused(ValueError, Error):
        stream.end_capture()
    stream.synchronize()
    with captured(stream), refused(ValueError, saying="captur"):
        stream.begin_capture()
    for default in (env.device.default_stream, env.device.per_thread_stream):
        with refused(ValueError, saying="default stream cannot be captured"):
            default.begin_capture()
        expect_equal(default.capture_status, "none", "capture_status of a default stream")
        default.synchronize()
    closed = env.pm.Stream(env.device)
    closed.close()
    with refused(ValueError, saying="closed"):
        closed.begin_capture()


@check("CAPTURE-03")
def what_a_capture_forbids(env: Env) -> None:
    at = Scene(env)
    stream, pm, rows = at.stream, env.pm, {"width": 64, "height": 64, "dst_pitch": 64, "src_pitch": 64}
    calls: Calls = {
        "a fill": lambda: at.buf.fill(2, stream=stream),
        "a fill of nothing": lambda: at.buf[:0].fill(2, stream=stream),
        "a fill of rows": lambda: pm.fill_2d(at.rows, 2, stream=stream),
        "a fill of host memory": lambda: at.host.fill(2, stream=stream),
        "a copy": lambda: pm.copy(at.host, at.buf, stream=stream),
        "a copy to pageable memory": lambda: pm.copy(bytearray(NBYTES), at.buf, stream=stream),
        "a copy from pageable memory": lambda: pm.copy(at.buf, OLD, stream=stream),
        "a copy of rows": lambda: pm.copy_2d(at.host, at.buf, **rows, stream=stream),
        "a copy of a box": lambda: pm.copy_3d(at.host, at.buf, width=16, height=16, depth=16, stream=stream),
        "to_numpy": lambda: at.buf.view().to_numpy(stream=stream),
        "asarray": lambda: pm.asarray(OLD, stream=stream),
        "declaring a use": lambda: at.host.record_stream(stream),
        "closing memory on it": lambda: at.buf.close(stream=stream),
        "a host function": lambda: stream.launch_host_func(lambda: None),
        "synchronizing it": lambda: stream.synchronize(),
        "asking it": lambda: stream.query(),
        "asking what it is": lambda: stream.is_nonblocking,
        "closing it": lambda: stream.close(),
        "synchronizing the device": lambda: env.device.synchronize(),
    }
    capabilities = env.device.capabilities
    if capabilities.memory_pools:
        pool = env.resource("async")
        home = pool.allocate(NBYTES, stream=stream)
        at.live.append(home)
        calls["allocating on it"] = lambda: pool.allocate(NBYTES, stream=stream)
        calls["closing memory that came from it"] = lambda: home.close()
        calls["deallocating on it"] = lambda: pool.deallocate(home.handle, NBYTES, stream=stream)
    if capabilities.managed_mode != "none":
        shared = env.resource("managed").allocate(NBYTES)
        at.live.append(shared)
        calls["a prefetch"] = lambda: shared.prefetch(env.device, stream=stream)
    _refuses(at, calls)
    at.close()


@check("CAPTURE-04")
def memory_in_use_on_a_captured_stream(env: Env) -> None:
    at = Scene(env)
    _refuses(
        at,
        {
            "a blocking fill": lambda: at.used.fill(3),
            "a blocking copy": lambda: env.pm.copy(at.used, OLD),
            "reading it": lambda: env.read(at.used),
            "a copy on another stream after the first use": lambda: env.pm.copy(at.used, at.used_host),
            "a Python buffer": lambda: memoryview(at.used_host),
            "closing it": lambda: at.used.close(),
            "closing it on another stream": lambda: at.used.close(stream=at.other),
            "closing host memory": lambda: at.used_host.close(),
        },
    )
    for used in (at.used, at.used_host):
        expect_bytes(env.read(used), b"\x01" * NBYTES, "memory that was touched by refused calls alone")
    at.close()


@check("CAPTURE-05")
def what_goes_on_beside_a_capture(env: Env) -> None:
    at, pm = Scene(env), env.pm

    def write_elsewhere() -> None:
        at.buf.fill(4, stream=at.other).synchronize()
        expect_bytes(env.read(at.buf), b"\x04" * NBYTES, "memory that was filled beside a capture")

    def allocate(resource: Any) -> None:
        with resource.allocate(NBYTES, stream=at.other) as buf:
            buf.fill(5, stream=at.other).synchronize()
            expect_bytes(env.read(buf), b"\x05" * NBYTES, "memory that was allocated beside a capture")

    def event() -> None:
        with pm.Stream(env.device) as stream, stream.record() as mark:
            mark.synchronize()
            expect(mark.query() and stream.query(), "a stream beside a capture is not done")

    calls: Calls = {
        "device memory": lambda: allocate(at.plain),
        "pitched memory": lambda: at.plain.allocate_pitched(100, 4).close(),
        "pinned memory": lambda: allocate(at.pinned),
        "registered memory": lambda: pm.HostRegistration(bytearray(NBYTES)).close(),
        "work on another stream": write_elsewhere,
        "another stream and event": event,
        "a blocking copy": lambda: pm.copy(at.host, at.buf),
        "a blocking fill": lambda: at.buf.fill(1),
        "figures": lambda: env.device.memory_info(),
        "pointers": lambda: pm.pointer_info(at.buf),
        "capabilities": lambda: env.device.capabilities.as_dict(),
        "the captured stream's priority": lambda: at.stream.priority,
    }
    capabilities = env.device.capabilities
    if capabilities.memory_pools:
        pool = env.resource("async")
        calls["memory of a pool"] = lambda: allocate(pool)
        calls["a pool's trim"] = lambda: pool.trim()
        calls["a pool's figures"] = lambda: (pool.used, pool.release_threshold)
        calls["another pool"] = lambda: pm.AsyncMemoryResource(env.device).close()
    if capabilities.managed_mode != "none":
        managed = env.resource("managed")
        calls["managed memory"] = lambda: allocate(managed)
    for mode in MODES:
        for name, call in calls.items():
            with captured(at.stream, mode, during=name):
                try:
                    call()
                except (ValueError, Error) as error:
                    expect("captur" in str(error).lower(), f"{name}, {mode}: {error}")
                    expect(env.platform.vendor != "portamem", f"{name}, {mode}, is refused: {error}")
                    env.note(f"refused beside a {mode} capture: {name}")
    at.close()


@check("CAPTURE-06")
def the_default_stream_beside_a_blocking_one(env: Env) -> None:
    at, blocking, default = Scene(env), env.stream(nonblocking=False), env.device.default_stream
    calls: Calls = {
        "a blocking fill": lambda: at.buf.fill(1),
        "a blocking copy": lambda: env.pm.copy(at.host, at.buf),
        "a fill": lambda: at.buf.fill(1, stream=default),
        "recording": lambda: default.record(),
        "waiting": lambda: default.wait(at.other),
        "asking": lambda: default.query(),
        "synchronizing": lambda: default.synchronize(),
        "a host function": lambda: default.launch_host_func(lambda: None),
    }
    for name, call in calls.items():
        with captured(blocking, during=name), refused(ValueError, saying="captur"):
            call()
        call()
    at.buf.fill(9)
    expect_bytes(env.read(at.buf), b"\x09" * NBYTES, "memory that was filled after the captures")
    at.close()


def _takes_or_refuses(resource: Any, stream: Any, buffers: list[Any]) -> None:
    """A resource that keeps memory may take a buffer back under capture, without a call of the runtime; others
    refuse."""
    with captured(stream):
        for buf in buffers:
            with suppress(ValueError):
                buf.close()
        expect_equal(resource.live_buffers, sum(not buf.is_closed for buf in buffers), "the number of live buffers")
    for buf in buffers:
        buf.close()
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("CAPTURE-07")
def closing_memory_of_a_captured_stream(env: Env, resource: Any) -> None:
    stream = env.stream()
    kept, forgotten = resource.allocate(NBYTES, stream=stream), resource.allocate(NBYTES, stream=stream)
    env.write(kept, NEW)
    stream.synchronize()
    if env.kind_of(resource).keeps:
        _takes_or_refuses(resource, stream, [kept, forgotten])
        return
    with captured(stream):
        with refused(ValueError, saying="captur"):
            kept.close()
        expect(not kept.is_closed, "memory whose close was refused is closed")
        del forgotten
        gc.collect()
        expect_equal(resource.live_buffers, 2, "the number of live buffers under capture")
    expect_bytes(env.read(kept), NEW, "memory whose close was refused")
    expect(eventually(lambda: resource.live_buffers == 1), "memory that was forgotten under capture is not given back")
    kept.close()
    expect_equal(resource.live_buffers, 0, "the number of live buffers")


@check("CAPTURE-08")
def streams_join_a_capture(env: Env) -> None:
    for by_event in (True, False):
        origin, branch = env.stream(), env.stream()
        with captured(origin):
            branch.wait(origin.record() if by_event else origin)
            expect_equal(branch.capture_status, "active", "capture_status of a stream that joined a capture")
            for call in (branch.query, branch.synchronize, branch.close):
                with refused(ValueError, saying="captur"):
                    call()
            origin.wait(branch.record() if by_event else branch)
        expect_equal(branch.capture_status, "none", "capture_status of the branch after the end")
        branch.synchronize()
        with env.allocate(env.resource("device"), 256) as buf:
            buf.fill(3, stream=branch).synchronize()
            expect_bytes(env.read(buf), b"\x03" * 256, "memory that was filled on what was a branch")


@check("CAPTURE-08")
def a_branch_that_is_not_joined(env: Env) -> None:
    origin, branch = env.stream(), env.stream()
    origin.begin_capture()
    branch.wait(origin)
    branch.record()
    expect_equal(branch.capture_status, "active", "capture_status of a stream that joined a capture")
    try:
        origin.end_capture()
    except Error as error:
        expect("captur" in str(error).lower(), str(error))
    for stream in (origin, branch):
        expect_equal(stream.capture_status, "none", "capture_status after the end")
        stream.synchronize()


@check("CAPTURE-09")
def events_of_a_capture(env: Env) -> None:
    stream, other = env.stream(), env.stream()
    with env.pm.Event(env.device, timing=True) as event, env.pm.Event(env.device, timing=True) as end:
        calls: Calls = {
            "asking": lambda: event.query(),
            "is_done": lambda: event.is_done,
            "synchronizing": lambda: event.synchronize(),
            "the time from it": lambda: event.elapsed_time(end),
            "the time to it": lambda: end.elapsed_time(event),
        }
        for mode in MODES:
            with captured(stream, mode):
                event.record(stream)
                for name, call in calls.items():
                    with refused(ValueError, saying="captur"):
                        call()
                    expect_equal(stream.capture_status, "active", f"capture_status after {name}")
            event.record(stream)
            event.synchronize()
            expect(event.query(), "an event that was recorded again after a capture is not done")
        event.record(other)
        end.record(other)
        outside: Calls = {
            "an event": lambda: stream.wait(event),
            "an event that is done": lambda: stream.wait(end),
            "the event of a fill": lambda: stream.wait(done),
            "a stream": lambda: stream.wait(other),
            "the default stream": lambda: stream.wait(env.device.default_stream),
        }
        with env.allocate(env.resource("device"), 256) as buf:
            done = buf.fill(1, stream=other)
            end.synchronize()
            for mode in MODES:
                for name, call in outside.items():
                    with captured(stream, mode, during=f"waiting for {name}"):
                        with refused(ValueError, saying="captur"):
                            call()
                        stream.wait(stream)
            other.synchronize()


@check("CAPTURE-10")
def captures_are_of_their_thread(env: Env) -> None:
    stream = env.stream()

    def work() -> None:
        for name in ("device", "pinned"):
            own = env.pm.Stream(env.device)
            with env.resource(name).allocate(NBYTES, stream=own) as buf:
                buf.fill(6, stream=own)
                own.synchronize()
                own.record().synchronize()
                expect_bytes(env.read(buf), b"\x06" * NBYTES, "memory of another thread beside a capture")
            own.close()

    for mode in MODES:
        with captured(stream, mode, during="work of another thread"):
            on_a_thread(work)


@check("CAPTURE-11")
def a_capture_that_is_made_invalid(env: Env, witness: Any) -> None:
    stream = env.stream()
    stream.begin_capture("global")
    try:
        address = witness.malloc(64)
    except RuntimeError:
        address = 0
    status = stream.capture_status
    try:
        stream.end_capture()
    except Error as error:
        expect_equal(status, "invalidated", "capture_status after a forbidden call of others")
        expect("captur" in str(error).lower() and error.code != 0, f"the end says: {error}")
    else:
        expect_equal(status, "active", "capture_status of a capture whose end succeeds")
        if address:
            witness.free(address)
        raise NotShown("the runtime lets others allocate beside a global capture")
    expect_equal(stream.capture_status, "none", "capture_status after the end of an invalid capture")
    with env.allocate(env.resource("device"), 256) as buf:
        buf.fill(3, stream=stream).synchronize()
        expect_bytes(env.read(buf), b"\x03" * 256, "memory that was filled after an invalid capture")


@check("CAPTURE-12")
def captured_work_does_not_run(env: Env, kernels: Any) -> None:
    stream = env.stream()
    with env.allocate(env.resource("device"), NBYTES) as buf:
        kernels.fill(stream.handle, buf.handle, NBYTES, 4)  # loading code may be forbidden under capture
        stream.synchronize()
        env.write(buf, OLD)
        for mode in MODES:
            with captured(stream, mode):
                kernels.fill(stream.handle, buf.handle, NBYTES, 5)
            stream.synchronize()
            expect_bytes(env.read(buf), OLD, "memory that captured work would write")
        kernels.fill(stream.handle, buf.handle, NBYTES, 5)
        stream.synchronize()
        expect(env.read(buf) != OLD, "work after a capture does not run")
