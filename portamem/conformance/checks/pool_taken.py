# SPDX-License-Identifier: MIT
"""Shows whose memory a pool gives to another stream where it has no other, and whose it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from portamem.conformance.checks.capture import captured
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, refused
from portamem.conformance.kit.memory import KIB, MIB
from portamem.conformance.kit.pooled import pool_like
from portamem.errors import OutOfMemoryError


@contextmanager
def _freed_behind_a_copy(env: Env, pool: Any, target: Any, stream: Any) -> Iterator[None]:
    """The block runs after a stream freed memory of the pool behind a copy of it, which a latch holds. At the end the
    copy has to have carried what was in it."""
    target.fill(0, stream=stream)
    source = pool.allocate(target.nbytes, stream=stream)
    source.fill(0x11, stream=stream)
    stream.synchronize()
    with env.latch(stream):
        target.copy_from(source, stream=stream)
        source.close()
        yield
    stream.synchronize()
    expect_bytes(env.read(target), b"\x11" * target.nbytes, "the target of a copy out of memory that was freed")


@check("POOL-46")
def another_streams_memory_without_a_wait(env: Env, resource: Any) -> None:
    nbytes = 4 * MIB
    with pool_like(env, resource, limit=6 * MIB) as pool, env.resource("pinned").allocate(nbytes) as target:
        for is_only_a_handle in (False, True, False, True):
            first, second = env.stream(), env.stream()
            with _freed_behind_a_copy(env, pool, target, first):
                taker = env.pm.Stream.from_handle(second.handle, device=env.device) if is_only_a_handle else second
                other = pool.allocate(nbytes, stream=taker)
                other.fill(0xFF, stream=taker)
                expect(not first.query() and not second.query(), "the host waited for what the first stream does")
            expect_bytes(env.read(other), b"\xff" * nbytes, "memory that was taken")
            other.close(stream=second)
            second.synchronize()


def _all_of(pool: Any, nbytes: int, stream: Any) -> list[Any]:
    """Buffers of one size until there is no more."""
    found = []
    try:
        while True:
            found.append(pool.allocate(nbytes, stream=stream))
    except OutOfMemoryError:
        return found


@check("POOL-46")
def memory_of_a_stream_that_is_only_a_handle(env: Env, resource: Any) -> None:
    owner, second = env.stream(), env.stream()
    first = env.pm.Stream.from_handle(owner.handle, device=env.device)
    for nbytes, limit in ((32 * KIB, 2 * MIB), (MIB, 6 * MIB)):  # few enough to be queued behind a latch
        with pool_like(env, resource, limit=limit) as pool, env.resource("pinned").allocate(limit) as target:
            all_of_it = _all_of(pool, nbytes, first)
            used = nbytes * len(all_of_it)
            for source in all_of_it:
                source.fill(0x11, stream=first)
            target.fill(0, stream=first)
            owner.synchronize()
            with env.latch(owner):
                for number, source in enumerate(all_of_it):
                    target[number * nbytes : (number + 1) * nbytes].copy_from(source, stream=first)
                    source.close()
                other = pool.allocate(nbytes, stream=second)
                other.fill(0xFF, stream=second)
                expect(not owner.query() and not second.query(), "the host waited for what the first stream does")
            owner.synchronize()
            expect_bytes(env.read(target[:used]), b"\x11" * used, "the target of copies out of memory that was taken")
            expect_bytes(env.read(other), b"\xff" * nbytes, "memory that was taken")
            other.close(stream=second)
            second.synchronize()


@check("POOL-46")
def memory_of_a_stream_that_is_captured_stays_there(env: Env, resource: Any) -> None:
    env.need(env.device.probe().stream_capture, "stream_capture")
    nbytes = 4 * MIB
    with pool_like(env, resource, limit=6 * MIB) as pool, env.resource("pinned").allocate(nbytes) as target:
        first, second = env.stream(), env.stream()
        with (
            _freed_behind_a_copy(env, pool, target, first),
            captured(first, during="another stream's need of its memory"),
            refused(OutOfMemoryError),
        ):
            pool.allocate(nbytes, stream=second).fill(0xFF, stream=second)
        with pool.allocate(nbytes, stream=second) as other:
            other.fill(0xFF, stream=second)
            expect_bytes(env.read(other), b"\xff" * nbytes, "memory that was taken after the capture")
