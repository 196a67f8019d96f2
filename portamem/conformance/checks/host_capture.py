# SPDX-License-Identifier: MIT
"""Shows the CPU runtime's rules of stream capture, by its C interface: portamem itself keeps out of their reach."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p
from functools import partial
from itertools import product
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal
from portamem.conformance.kit.host_calls import (
    CPU,
    DEFAULT_DIRECTION,
    DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    LEGACY,
    NOT_SUPPORTED,
    Interface,
    Machine,
    PoolProps,
    on_a_machine,
)
from portamem.conformance.kit.memory import pattern
from portamem.conformance.kit.threads import on_a_thread

ILLEGAL_STATE, UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED = 401, 900, 901, 902, 903, 904
ISOLATION, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = 905, 906, 907, 908
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALID = 0, 1, 2


class Scene(Machine):
    """Two more streams, one of which is blocking, and words for what a capture does."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.blocking = (self.rt.get("StreamCreateWithPriority", flags, 0) for flags in (1, 0))
        self.spare = self.rt.get("EventCreateWithFlags", 2)

    def things(self) -> Iterator[tuple[str, int]]:
        for stream in (self.branch, self.blocking):
            yield "StreamDestroy", stream
        yield "EventDestroy", self.spare
        yield from super().things()

    def refused(self, code: int, name: str, *arguments: Any) -> None:
        shown = tuple(each for each in arguments if isinstance(each, int))
        expect_equal(self.rt.answer(name, *arguments), code, f"the answer of {name}{shown}")
        self.rt.answer("GetLastError")

    def begin(self, stream: int, mode: int = RELAXED) -> None:
        self.rt.do("StreamBeginCapture", stream, mode)
        self.status(stream, ACTIVE)

    def status(self, stream: int, wanted: int) -> None:
        found = c_int(9)
        self.rt.do("StreamIsCapturing", stream, byref(found))
        expect_equal(found.value, wanted, "the capture's status")

    def end(self, stream: int, code: int = 0) -> int:
        """Ends a capture with that answer, and says how many nodes its graph has: -1 without one."""
        graph = c_void_p(1)
        expect_equal(self.rt.answer("StreamEndCapture", stream, byref(graph)), code, "the answer of StreamEndCapture")
        self.rt.answer("GetLastError")
        self.status(stream, NONE)
        if code:
            expect_equal(graph.value, None, "the graph of a capture that failed")
            return -1
        nodes = c_size_t(99)
        self.rt.do("GraphGetNodeCount", graph, byref(nodes))
        self.rt.do("GraphDestroy", graph)
        self.refused(INVALID_VALUE, "GraphDestroy", graph.value)
        return nodes.value

    def fill(self, stream: int) -> None:
        self.rt.do("MemsetAsync", self.device, 0x5A, 4096, stream)

    def fork(self, stream: int, other: int) -> None:
        """Makes a stream wait for another."""
        self.rt.do("EventRecord", self.spare, stream)
        self.rt.do("StreamWaitEvent", other, self.spare, 0)


@contextmanager
def thread_mode(rt: Interface, mode: int) -> Iterator[None]:
    """This thread's own mode, put back afterwards."""
    value = c_int(mode)
    rt.do("ThreadExchangeStreamCaptureMode", byref(value))
    try:
        yield
    finally:
        rt.do("ThreadExchangeStreamCaptureMode", byref(value))
        expect_equal(value.value, mode, "the thread's mode that was put back")


@check("HOST-23")
@on_a_machine(Scene)
def captured_work_is_counted_and_does_not_run(env: Env, at: Scene) -> None:
    nothing = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None)
    rt, data = at.rt, pattern(4096)
    rt.do("Memcpy", at.device, data, 4096, DEFAULT_DIRECTION)
    at.begin(at.stream)
    at.status(at.branch, NONE)
    at.fill(at.stream)
    rt.do("MemcpyAsync", at.device, at.other, 4096, DEFAULT_DIRECTION, at.stream)
    rt.do("LaunchHostFunc", at.stream, ctypes.cast(nothing, c_void_p), None)
    at.fork(at.stream, at.branch)
    at.status(at.branch, ACTIVE)
    at.fill(at.branch)
    at.fill(at.branch)
    at.fork(at.branch, at.stream)
    expect_equal(at.end(at.stream), 5, "nodes of the graph")
    at.status(at.branch, NONE)
    at.begin(at.stream)
    expect_equal(at.end(at.stream), 0, "nodes of an empty graph")
    rt.do("DeviceSynchronize")
    rt.do("Memcpy", at.plain, at.device, 4096, DEFAULT_DIRECTION)
    expect_bytes(at.plain.raw, data, "memory that only captured work would have changed")


def _unsafe_calls(at: Scene) -> dict[str, tuple[Any, ...]]:
    here, props = ctypes.addressof(at.plain), byref(PoolProps(DEVICE, 0))
    return {
        "Malloc": (at.out, 16),
        "ExtMallocWithFlags": (at.out, 16, 1),
        "MallocPitch": (at.out, byref(c_size_t()), 16, 16),
        "MallocManaged": (at.out, 16, 1),
        "HostMalloc": (at.out, 16, 0),
        "Free": (at.device,),
        "HostFree": (at.pinned,),
        "HostRegister": (here, 4096, 0),
        "HostUnregister": (here,),
        "MemAdvise": (at.managed, 4096, 1, CPU),
        "MemPrefetchAsync": (at.managed, 4096, DEVICE, 0, at.branch),
        "StreamAttachMemAsync": (at.branch, at.managed, 0, 1),
        "MemPoolCreate": (at.out, props),
        "MemPoolDestroy": (at.pool,),
        "MemPoolTrimTo": (at.pool, 0),
        "DeviceSetMemPool": (0, at.pool),
        "DeviceSetLimit": (0, 4096),
        "DeviceSynchronize": (),
        "StreamQuery": (at.branch,),
        "StreamSynchronize": (at.branch,),
        "EventQuery": (at.event,),
        "EventSynchronize": (at.event,),
    }


@check("HOST-23")
@on_a_machine(Scene)
def calls_that_a_capture_forbids(env: Env, at: Scene) -> None:
    limit = at.rt.get("DeviceGetLimit", 0, kind=c_size_t)
    free = env.device.memory_info().free
    for name, arguments in _unsafe_calls(at).items():
        at.begin(at.stream, GLOBAL)
        at.fill(at.stream)
        at.refused(UNSUPPORTED, name, *arguments)
        at.status(at.stream, INVALID)
        at.refused(INVALIDATED, "MemsetAsync", at.device, 1, 16, at.stream)
        at.end(at.stream, INVALIDATED)
    expect_equal(at.rt.get("DeviceGetLimit", 0, kind=c_size_t), limit, "a limit that a capture kept from being set")
    expect_equal(env.device.memory_info().free, free, "free memory after calls that captures forbade")


@check("HOST-23")
@on_a_machine(Scene)
def who_is_kept_from_what(env: Env, at: Scene) -> None:
    modes = (GLOBAL, THREAD_LOCAL, RELAXED)

    def call(mine: int) -> int:
        with thread_mode(at.rt, mine):
            code = at.rt.answer("MemPoolTrimTo", at.pool, 0)
            at.rt.answer("GetLastError")
            return code

    for captures, mine, same in product(modes, modes, (True, False)):
        at.begin(at.stream, captures)
        code = call(mine) if same else on_a_thread(partial(call, mine))
        forbids = captures != RELAXED if same else captures == GLOBAL and mine == GLOBAL
        forbidden = forbids and mine != RELAXED
        words = f"in mode {mine} on {'the same' if same else 'another'} thread, under a capture of mode {captures}"
        expect_equal(code, UNSUPPORTED if forbidden else 0, f"the answer of MemPoolTrimTo {words}")
        at.end(at.stream, INVALIDATED if forbidden else 0)
    for name in ("StreamQuery", "StreamSynchronize"):
        at.begin(at.stream)
        with thread_mode(at.rt, RELAXED):
            at.refused(UNSUPPORTED, name, at.stream)
        at.end(at.stream, INVALIDATED)
    at.begin(at.stream, GLOBAL)
    at.begin(at.branch, RELAXED)
    at.refused(UNSUPPORTED, "MemPoolTrimTo", at.pool, 0)
    at.status(at.branch, ACTIVE)
    at.end(at.branch)
    at.end(at.stream, INVALIDATED)


@check("HOST-23")
@on_a_machine(Scene)
def the_default_stream_beside_a_capture(env: Env, at: Scene) -> None:
    calls: tuple[tuple[Any, ...], ...] = (
        ("MemsetAsync", at.device, 1, 16, LEGACY),
        ("Memset", at.device, 1, 16),
        ("StreamQuery", LEGACY),
        ("EventRecord", at.event, LEGACY),
        ("StreamWaitEvent", LEGACY, at.event, 0),
        ("MallocAsync", at.out, 16, LEGACY),
    )
    for name, *arguments in calls:
        at.begin(at.blocking)
        at.refused(IMPLICIT, "StreamIsCapturing", LEGACY, byref(c_int()))
        at.status(at.blocking, ACTIVE)
        at.refused(IMPLICIT, name, *arguments)
        at.end(at.blocking, INVALIDATED)
    at.begin(at.stream)  # nonblocking: the default stream has nothing to do with it
    at.status(LEGACY, NONE)
    for name, *arguments in calls[:5]:
        at.rt.do(name, *arguments)
        at.rt.do("StreamSynchronize", LEGACY)
    at.end(at.stream)
    at.begin(at.stream)
    at.rt.do("EventRecord", at.spare, at.stream)
    at.refused(IMPLICIT, "StreamWaitEvent", LEGACY, at.spare, 0)
    at.status(at.stream, ACTIVE)
    at.end(at.stream)
    at.refused(UNSUPPORTED, "StreamBeginCapture", LEGACY, RELAXED)


@check("HOST-23")
@on_a_machine(Scene)
def memory_under_capture(env: Env, at: Scene) -> None:
    memory = at.rt.get("MallocAsync", 4096, at.stream)
    at.begin(at.stream)
    at.refused(NOT_SUPPORTED, "MallocAsync", at.out, 16, at.stream)
    at.refused(NOT_SUPPORTED, "MallocFromPoolAsync", at.out, 16, at.pool, at.stream)
    at.refused(NOT_SUPPORTED, "FreeAsync", memory, at.stream)
    elsewhere = at.rt.get("MallocAsync", 4096, at.branch)
    at.rt.do("FreeAsync", elsewhere, at.branch)
    expect_equal(at.end(at.stream), 0, "nodes of the graph")
    at.rt.do("FreeAsync", memory, at.stream)
    at.rt.do("StreamSynchronize", at.stream)


@check("HOST-23")
@on_a_machine(Scene)
def events_under_capture(env: Env, at: Scene) -> None:
    at.begin(at.stream)
    at.rt.do("StreamWaitEvent", at.stream, at.event, 0)  # never recorded
    at.rt.do("EventRecord", at.event, at.branch)
    at.refused(ISOLATION, "StreamWaitEvent", at.stream, at.event, 0)
    at.end(at.stream, INVALIDATED)
    for name in ("EventQuery", "EventSynchronize"):
        at.begin(at.stream)
        at.rt.do("EventRecord", at.event, at.stream)
        at.refused(CAPTURED_EVENT, name, at.event)
        at.end(at.stream, INVALIDATED)
        at.refused(INVALID_VALUE, name, at.event)
    at.refused(INVALID_VALUE, "StreamWaitEvent", at.branch, at.event, 0)
    at.begin(at.stream)
    at.rt.do("EventRecord", at.timed, at.stream)
    elapsed = c_float()
    at.refused(INVALID_HANDLE, "EventElapsedTime", byref(elapsed), at.timed, at.timed)
    at.end(at.stream)
    for event in (at.event, at.timed):
        at.rt.do("EventRecord", event, at.branch)
        at.rt.do("EventSynchronize", event)
        at.rt.do("EventQuery", event)
    at.begin(at.stream)
    at.begin(at.branch)
    at.rt.do("EventRecord", at.event, at.stream)
    at.refused(MERGE, "StreamWaitEvent", at.branch, at.event, 0)
    for stream in (at.stream, at.branch):
        at.end(stream, INVALIDATED)


@check("HOST-23")
@on_a_machine(Scene)
def captures_end_as_they_began(env: Env, at: Scene) -> None:
    at.refused(ILLEGAL_STATE, "StreamEndCapture", at.stream, byref(c_void_p()))
    at.begin(at.stream)
    at.refused(ILLEGAL_STATE, "StreamBeginCapture", at.stream, RELAXED)
    at.end(at.stream)
    at.begin(at.stream)  # one node of the branch is not joined
    at.fork(at.stream, at.branch)
    at.fill(at.branch)
    at.fork(at.branch, at.stream)
    at.fill(at.branch)
    at.end(at.stream, UNJOINED)
    at.status(at.branch, NONE)
    at.begin(at.stream)
    at.fork(at.stream, at.branch)
    at.refused(UNMATCHED, "StreamEndCapture", at.branch, byref(c_void_p()))
    at.status(at.branch, INVALID)
    at.end(at.stream, INVALIDATED)
    at.begin(at.stream)  # the middle one of three joins the last one
    at.fork(at.stream, at.branch)
    at.fork(at.branch, at.blocking)
    at.fill(at.blocking)
    at.fork(at.blocking, at.branch)
    at.fork(at.branch, at.stream)
    expect_equal(at.end(at.stream), 1, "nodes of a graph whose branch was joined by another")
    for mode, code in ((GLOBAL, WRONG_THREAD), (THREAD_LOCAL, WRONG_THREAD), (RELAXED, 0)):
        at.begin(at.stream, mode)
        on_a_thread(partial(at.end, at.stream, code))
        at.rt.do("MemPoolTrimTo", at.pool, 0)
    for gone, left in ((0, NONE), (1, INVALID)):
        streams = [at.rt.get("StreamCreateWithPriority", 1, 0) for _ in range(2)]
        at.begin(streams[0], GLOBAL)
        at.fork(streams[0], streams[1])
        at.rt.do("StreamDestroy", streams[gone])
        at.status(streams[1 - gone], left)
        if left != NONE:
            at.end(streams[0], INVALIDATED)
        at.rt.do("MemPoolTrimTo", at.pool, 0)
        at.rt.do("StreamDestroy", streams[1 - gone])
    flags = c_uint(9)
    at.rt.do("StreamGetFlags", at.stream, byref(flags))
    expect_equal(flags.value, 1, "flags of a stream after its captures")


@check("HOST-27")
def the_threads_mode_stays(env: Env) -> None:
    rt, stream, event = Interface(), env.stream(), env.pm.Event(env.device)
    plain, pinned, pool = (env.resource(name) for name in ("device", "pinned", "async"))

    def work(mode: int) -> None:
        with thread_mode(rt, mode):
            with plain.allocate(4096) as buf, pinned.allocate(4096) as host:
                buf.fill(1, stream=stream)
                buf.copy_to(host, stream=stream).synchronize()
                env.pm.pointer_info(buf)
            pool.allocate(4096, stream=stream).close()
            pool.trim()
            stream.record(event).synchronize()
            expect_equal(event.query(), True, "whether the event is done")
            stream.synchronize()
            env.device.synchronize()
            with env.pm.Stream(env.device) as other:
                other.wait(event)

    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        on_a_thread(partial(work, mode))  # a mode of its own, that no knob has touched
    event.close()


@check("HOST-28")
def streams_go_with_their_threads(env: Env) -> None:
    memory = env.resource("device").allocate(4096)

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    def work() -> None:
        memory.fill(1, stream=env.device.per_thread_stream).synchronize()

    on_a_thread(work)
    before = threads()
    for _ in range(4):
        on_a_thread(work)
    memory.close()
    # One more may be there for good: the one that lets go of finished work, if it had nothing to do before.
    expect(eventually(lambda: threads() <= before + 1), f"{threads()} threads, and {before} before four that ended")
