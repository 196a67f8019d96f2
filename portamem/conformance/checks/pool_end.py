# SPDX-License-Identifier: MIT
"""Shows that a pool gives all its memory back when it ends, also where a capture delays that."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_equal
from portamem.conformance.kit.memory import KIB
from portamem.conformance.kit.threads import TIMEOUT_S, on_a_thread

NBYTES = 64 * KIB


def _use(pool: Any, stream: Any) -> None:
    with pool.allocate(NBYTES, stream=stream) as buf:
        buf.fill(1, stream=stream)


@contextmanager
def _used(use: Callable[[], None], user: str) -> Iterator[None]:
    """Inside the block, ``user`` has used the pool: this thread, one that has ended, or one that goes on."""
    if user == "a thread that goes on":
        used, end = threading.Event(), threading.Event()

        def work() -> None:
            use()
            used.set()
            end.wait(TIMEOUT_S)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        expect(used.wait(TIMEOUT_S), "the thread did not use the pool")
        try:
            yield
        finally:
            end.set()
            thread.join(TIMEOUT_S)
    else:
        on_a_thread(use) if user == "a thread that has ended" else use()
        yield


@check("POOL-49")
def dropped_while_a_stream_is_captured(env: Env, resource: Any) -> None:
    env.need(env.device.probe().stream_capture, "stream_capture")
    stream, below = env.stream(), resource.upstream
    _drop_while_captured(env, below, stream, lambda: stream, "this thread")
    for user in ("this thread", "a thread that has ended", "a thread that goes on"):
        _drop_while_captured(env, below, stream, lambda: env.device.per_thread_stream, user)


def _drop_while_captured(env: Env, below: Any, captured: Any, used_on: Callable[[], Any], user: str) -> None:
    before = below.live_bytes
    pools = [env.pm.PoolMemoryResource(below)]
    with _used(lambda: _use(pools[0], used_on()), user):
        captured.begin_capture()
        try:
            pools.clear()
            gc.collect()
            expect_equal(captured.capture_status, "active", "the capture")
        finally:
            captured.end_capture()
        is_back = eventually(lambda: below.live_bytes == before)
        expect(is_back, f"a pool that {user} used keeps {below.live_bytes - before} bytes for good")
