# SPDX-License-Identifier: MIT
"""Shows that Ctrl-C ends what the program waits in: calls end while a latch holds, which only this thread opens."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.checks.thread_gil import CALLS, HOST_CALLS, NBYTES
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal
from portamem.conformance.kit.memory import MIB
from portamem.conformance.kit.outcome import NotShown

_SOON_S = 0.05
"""Until the signal is sent, by another thread: the call has begun to wait then. If it has not, it is ended all the
same."""


@contextmanager
def _interrupted(name: str) -> Iterator[None]:
    """The block ends by the KeyboardInterrupt of a SIGINT that the process gets in it."""
    if threading.current_thread() is not threading.main_thread():
        raise NotShown("Python runs signal handlers on its first thread only, and this is another")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = threading.Timer(_SOON_S, os.kill, (os.getpid(), signal.SIGINT))
    ended = False
    try:
        sender.start()
        yield
        while True:
            time.sleep(_SOON_S)  # for a block that does not wait at all
    except KeyboardInterrupt:
        ended = True
    finally:
        sender.join()
        signal.signal(signal.SIGINT, before)
    expect(ended, f"{name} was not interrupted")


def _are_interrupted(env: Env, resource: Any, calls: dict[str, Callable[[Env, Any, Any], object]]) -> None:
    for name, call in calls.items():
        stream = env.stream()
        buf = resource.allocate(NBYTES)
        with env.latch(stream) as held:
            buf.fill(1, stream=stream)
            with _interrupted(name):
                call(env, stream, buf)
            expect(not held.timed_out, f"{name} went on to its end, whatever signal there was")
        call(env, stream, buf)
        buf.close()
        expect(eventually(lambda: resource.live_buffers == 0), f"memory is out after {name} was interrupted")


@check("THREAD-18")
def calls_that_wait(env: Env) -> None:
    _are_interrupted(env, env.resource("device"), CALLS)


@check("THREAD-18")
def calls_that_wait_on_pinned_memory(env: Env) -> None:
    _are_interrupted(env, env.resource("pinned"), {**CALLS, **HOST_CALLS})


@check("THREAD-18")
def calls_that_wait_for_memory_of_a_pool(env: Env) -> None:
    """Memory that the host reaches is handed out again, and goes back, when its work has run."""
    calls: dict[str, Callable[[Any, Any], object]] = {
        "allocate": lambda pool, stream: pool.allocate(4 * MIB, stream=stream).close(),
        "trim": lambda pool, stream: pool.trim(),
        "close": lambda pool, stream: pool.close(),
    }
    for name, call in calls.items():
        stream, pool = env.stream(), env.pm.PoolMemoryResource(env.resource("pinned"), limit=4 * MIB)
        with env.latch(stream) as held:
            buf = pool.allocate(3 * MIB, stream=stream)
            buf.fill(1, stream=stream)
            buf.close()
            with _interrupted(name):
                call(pool, stream)
            expect(not held.timed_out, f"{name} went on to its end, whatever signal there was")
        stream.synchronize()
        call(pool, stream)
        expect_equal((pool.live_buffers, pool.stats().used), (0, 0), f"what is out after {name} was interrupted")
        pool.close()
        expect(pool.is_closed, f"the pool is open after {name} was interrupted")


@check("THREAD-18")
def the_last_reference_to_a_pool(env: Env) -> None:
    """It waits for the work that used the pool's memory. Where that is interrupted, the memory goes back later."""
    for kind in ("pinned", "device"):
        _interrupted_end_of_a_pool(env, kind)


def _interrupted_end_of_a_pool(env: Env, kind: str) -> None:
    stream, upstream = env.stream(), env.resource(kind)
    pool = env.pm.PoolMemoryResource(upstream)
    with env.latch(stream) as held:
        with pool.allocate(NBYTES, stream=stream) as buf:
            buf.fill(1, stream=stream)
        with _interrupted(f"the last reference to a pool of {kind} memory"):
            del pool
            time.sleep(_SOON_S)  # a signal that the pool's end heard is raised here
        expect(not held.timed_out, f"the end of a pool of {kind} memory heard no signal")
    expect(eventually(lambda: upstream.live_buffers == 0), f"a pool whose end was interrupted keeps {kind} memory")
    upstream.close()


@check("THREAD-18")
def a_copy_that_was_interrupted(env: Env) -> None:
    """It may have been queued already: then it happens, and memory that is let go meanwhile is not another's before."""
    resource = env.resource("device")
    stream = env.device.default_stream
    source, target = env.resource("pinned").allocate(NBYTES), resource.allocate(NBYTES)
    with memoryview(source) as bytes_of_source:
        bytes_of_source[:] = b"\x21" * NBYTES
    target.fill(0)
    with env.latch(stream) as held:
        with _interrupted("copy"):
            env.pm.copy(target, source)
        expect(not held.timed_out, "the copy went on to its end, whatever signal there was")
        before = target.exports
    stream.synchronize()
    expect_equal(before, 0, "exports of a target whose copy was interrupted")
    expect(env.read(target) in (bytes(NBYTES), b"\x21" * NBYTES), "an interrupted copy has been made by half")
    env.pm.copy(target, source)
    expect_bytes(env.read(target), b"\x21" * NBYTES, "the target of the copy that was made again")
    source.close()
    target.close()


@check("THREAD-18")
def what_a_handler_raises(env: Env) -> None:
    """The wait ends when a handler raises, whatever the signal. Where a handler raises nothing the wait goes on."""
    if threading.current_thread() is not threading.main_thread():
        raise NotShown("Python runs signal handlers on its first thread only, and this is another")
    stream, told = env.stream(), list[str]()

    class _MineError(Exception):
        pass

    def handler(*_: Any) -> None:
        told.append("told")
        if len(told) == 2:
            raise _MineError("by a handler")

    before = signal.signal(signal.SIGUSR1, handler)
    senders = [threading.Timer(n * _SOON_S, os.kill, (os.getpid(), signal.SIGUSR1)) for n in (1, 2)]
    raised = False
    try:
        with env.latch(stream) as held:
            for sender in senders:
                sender.start()
            try:
                stream.synchronize()
            except _MineError:
                raised = True
            expect(not held.timed_out, "the wait went on to its end, whatever signal there was")
    finally:
        for sender in senders:
            sender.join()
        signal.signal(signal.SIGUSR1, before)
    expect_equal(
        (raised, len(told)), (True, 2), "whether what the handler raised has arrived, and how often it was run"
    )
