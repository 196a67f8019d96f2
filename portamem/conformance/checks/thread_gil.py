# SPDX-License-Identifier: MIT
"""Shows that calls which wait let other threads run: each ends only because another thread releases a latch."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes

NBYTES = 4096

CALLS: dict[str, Callable[[Env, Any, Any], object]] = {
    "Stream.synchronize": lambda env, stream, buf: stream.synchronize(),
    "Event.synchronize": lambda env, stream, buf: stream.record().synchronize(),
    "Device.synchronize": lambda env, stream, buf: env.device.synchronize(),
    "a copy to pageable memory": lambda env, stream, buf: env.pm.copy(bytearray(NBYTES), buf),
    "a copy from pageable memory": lambda env, stream, buf: env.pm.copy(buf, bytes(NBYTES)),
    "a copy on the stream": lambda env, stream, buf: env.pm.copy(buf, bytes(NBYTES), stream=stream).synchronize(),
    "a copy of rows": lambda env, stream, buf: env.pm.copy_2d(
        buf, bytes(NBYTES), width=64, height=64, dst_pitch=64, src_pitch=64
    ),
    "a copy of a box": lambda env, stream, buf: env.pm.copy_3d(buf, bytes(NBYTES), width=16, height=16, depth=16),
    "a fill": lambda env, stream, buf: buf.fill(2),
    "View.to_numpy": lambda env, stream, buf: buf.view().to_numpy(),
    "Buffer.close": lambda env, stream, buf: buf.close(),
    "Buffer.close, on the stream": lambda env, stream, buf: buf.close(stream=stream),
    "Stream.close": lambda env, stream, buf: stream.close(),
    "the end of a block": lambda env, stream, buf: buf.__exit__(None, None, None),
}

HOST_CALLS: dict[str, Callable[[Env, Any, Any], object]] = {
    "memoryview": lambda env, stream, buf: memoryview(buf).release(),
    "bytes": lambda env, stream, buf: bytes(memoryview(buf)),
}


def _lets_others_run(env: Env, resource: Any, calls: dict[str, Callable[[Env, Any, Any], object]]) -> None:
    for name, call in calls.items():
        stream = env.stream()
        with resource.allocate(NBYTES) as buf, env.latch(stream) as held:
            buf.fill(1, stream=stream)
            held.release_soon(0.01)
            call(env, stream, buf)
            expect(not held.timed_out, f"{name} kept other threads from running")


@check("THREAD-08")
def calls_that_wait(env: Env) -> None:
    _lets_others_run(env, env.resource("device"), CALLS)


@check("THREAD-08")
def calls_that_wait_on_pinned_memory(env: Env) -> None:
    _lets_others_run(env, env.resource("pinned"), {**CALLS, **HOST_CALLS})


@check("THREAD-08")
def calls_that_wait_on_managed_memory(env: Env) -> None:
    prefetch = {"Buffer.prefetch": lambda env, stream, buf: buf.prefetch("host")}
    _lets_others_run(env, env.resource("managed"), {**CALLS, **HOST_CALLS, **prefetch})


@check("THREAD-08")
def a_registration_that_is_closed(env: Env) -> None:
    stream = env.stream()
    with env.resource("device").allocate(NBYTES) as buf, env.pm.HostRegistration(bytearray(b"\x11" * NBYTES)) as memory:
        with env.latch(stream) as held:
            done = buf.copy_from(memory, stream=stream)
            held.release_soon(0.01)
            memory.close()
            expect(not held.timed_out, "closing a registration kept other threads from running")
            expect(done.query(), "a registration was closed under a copy that was unfinished")
        expect_bytes(env.read(buf), b"\x11" * NBYTES, "the target of a copy from registered memory")


@check("THREAD-09")
def the_garbage_collector(env: Env) -> None:
    stream = env.stream()
    for name in ("pinned", "device", "system"):
        resource = env.resource(name)
        for in_a_cycle in (False, True):
            buf = resource.allocate(NBYTES)
            with env.latch(stream) as held:
                buf.fill(1, stream=stream)
                held.release_soon(0.01)
                if in_a_cycle:
                    cycle: list[Any] = [buf]
                    cycle.append(cycle)
                    del cycle
                del buf
                gc.collect()
                stream.synchronize()
                expect(not held.timed_out, f"freeing forgotten {name} memory kept other threads from running")
        expect(eventually(partial(_is_empty, resource)), f"{name} memory is not given back")


def _is_empty(resource: Any) -> bool:
    return bool(resource.live_buffers == 0)
