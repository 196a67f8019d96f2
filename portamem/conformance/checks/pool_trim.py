# SPDX-License-Identifier: MIT
"""Shows that pools give back: by trim, when there is no more memory, at their limit, and by their own policy."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.kit.pooled import Filled, pool_like
from portamem.conformance.kit.threads import in_threads
from portamem.errors import OutOfMemoryError

LIMIT = 64 * MIB


@check("POOL-32")
def trim_gives_back(env: Env, resource: Any) -> None:
    streams = [env.stream() for _ in range(3)]
    keeper = resource.allocate(NBYTES, stream=streams[0])
    env.write(keeper, NEW)
    for keep in (0, 8 * MIB, 1 << 40):
        for nbytes in (1000, 64 * KIB, MIB, 20 * MIB):
            for buf in [resource.allocate(nbytes, stream=stream) for stream in streams]:
                buf.close()
        before = resource.stats().reserved
        expect(before >= 60 * MIB, f"{before} bytes are reserved after 63 MiB were out")
        resource.trim(keep)
        after = resource.stats().reserved
        expect(NBYTES <= after <= before, f"{after} bytes are reserved after a trim, and were {before}")
        if keep < before:
            expect(
                after <= keep + 4 * MIB, f"{after} bytes are reserved after a trim to {keep}, of which 64 KiB are out"
            )
        else:
            expect_equal(after, before, "reserved after a trim to more than there is")
        expect_equal(resource.upstream.live_bytes, after, "bytes that the pool has of its upstream")
    expect_bytes(env.read(keeper), NEW, "memory that was out while the pool was trimmed")
    keeper.close()
    resource.trim("0 B")
    expect_equal(
        (resource.stats().reserved, resource.upstream.live_buffers), (0, 0), "what is left after the last free"
    )
    with resource.allocate(NBYTES, stream=streams[0]) as buf:
        buf.fill(1)
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "memory after a trim")


@check("POOL-32")
def wrong_words_to_trim(env: Env, resource: Any) -> None:
    resource.allocate(NBYTES, stream=env.stream()).close()
    before = resource.stats().reserved
    for size in (-1, "8 apples", 1 << 64):
        with refused(ValueError):
            resource.trim(size)
    for strange in (1.5, None, b"1"):
        with refused(TypeError):
            resource.trim(strange)
    expect_equal(resource.stats().reserved, before, "reserved after refusals")


@check("POOL-33")
def what_goes_upstream_is_not_in_use(env: Env, resource: Any) -> None:
    stream = env.stream()
    releases: tuple[Callable[[], object], ...] = (lambda: resource.trim(), lambda: resource.close())
    for release in releases:
        buf = resource.allocate(NBYTES, stream=stream)
        with env.latch(stream) as held:
            done = buf.fill(0x11, stream=stream)
            buf.close()
            held.release_soon()
            release()
            expect(done.query(), "memory went upstream before the work on it was done")


@check("POOL-52")
def trim_of_one_stream(env: Env, resource: Any) -> None:
    mine, other = env.stream(), env.stream()
    for turn in range(2):
        bufs = [resource.allocate(20 * MIB, stream=stream) for stream in (mine, other)]  # a chunk for each
        for buf in bufs:
            env.write(buf, pattern(20 * MIB, seed=turn))
        before = resource.stats().reserved
        expect(before >= 40 * MIB, f"{before} bytes are reserved for 40 MiB")
        with env.latch(mine) as held:
            done = bufs[0].fill(0x11, stream=mine)
            for buf in bufs:
                buf.close()
            held.release_soon()
            resource.trim(stream=mine)
            expect(done.query(), "memory went upstream before the work on it was done")
        after = resource.stats().reserved
        expect(after <= before - 20 * MIB, f"{after} bytes are reserved, and were {before}")
        expect_equal(resource.upstream.live_bytes, after, "bytes that the pool has of its upstream")
        resource.trim(stream=other)
        expect_equal(resource.stats().reserved, 0, "reserved bytes after trims of both streams")
    with resource.allocate(NBYTES, stream=mine) as buf:
        buf.fill(1, stream=mine)
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "memory after a trim")


@check("POOL-52")
def trim_waits_for_no_other_stream(env: Env, resource: Any) -> None:
    """Nothing goes upstream here, because the runtime's own Free may wait for the whole device."""
    mine, other = env.stream(), env.stream()
    bufs = [resource.allocate(MIB, stream=stream) for stream in (mine, other)]
    with env.latch(other) as held:
        bufs[1].fill(0x22, stream=other)
        for buf in bufs:
            buf.close()
        reserved = resource.stats().reserved
        resource.trim(reserved, stream=mine)
        expect(not other.query(), "the trim has waited for another stream")
        expect_equal(resource.stats().reserved, reserved, "reserved after a trim to what there is")
        held.release()
    other.synchronize()
    with resource.allocate(MIB, stream=other) as buf:
        buf.fill(1, stream=other)
        expect_bytes(env.read(buf), b"\x01" * MIB, "memory after the trim")


@check("POOL-52")
def a_stream_that_cannot_be_trimmed(env: Env, resource: Any) -> None:
    stream = env.stream()
    resource.allocate(NBYTES, stream=stream).close()
    before = resource.stats().reserved
    for strange in ("stream", 1.5):
        with refused(TypeError):
            resource.trim(stream=strange)
    if len(env.pm.devices()) > 1 and resource.device_id >= 0:
        elsewhere = next(device for device in env.pm.devices() if device.ordinal != env.ordinal)
        with env.pm.Stream(elsewhere) as theirs, refused(ValueError, saying="device"):
            resource.trim(stream=theirs)
    if env.device.probe().stream_capture:
        stream.begin_capture()
        try:
            with refused(ValueError, saying="trim"):
                resource.trim(stream=stream)
        finally:
            stream.end_capture()
    expect_equal(resource.stats().reserved, before, "reserved after refusals")
    stream.close()
    resource.trim(stream=stream)
    expect_equal(resource.stats().reserved, 0, "reserved after a trim of a stream that was closed")


@check("POOL-34")
def trim_while_others_allocate(env: Env, resource: Any) -> None:
    going = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            while not going.wait(0.0005):
                resource.trim()
                resource.trim(4 * MIB)
            return
        chance = random.Random(number)
        try:
            with env.pm.Stream(env.device) as stream:
                for turn in range(40):
                    data = pattern(chance.choice((100, 5000, 70_000)), seed=number * 100 + turn)
                    with resource.allocate(len(data), stream=stream) as buf:
                        env.pm.copy(buf, data, stream=stream)
                        expect_bytes(env.read(buf), data, f"thread {number}, turn {turn}")
        finally:
            finished.append(number)
            if len(finished) == 4:
                going.set()

    finished: list[int] = []
    in_threads(work, 5)
    resource.trim()
    expect_equal((resource.live_buffers, resource.stats().reserved), (0, 0), "live buffers, and reserved bytes")


def _sizes(seed: int) -> Iterator[int]:
    chance = random.Random(seed)
    while True:
        yield int(256 * 2 ** (chance.random() * 13))  # 256 B to 2 MiB


@check("POOL-35")
def full_fragmented_out_of_memory_and_all_back(env: Env, resource: Any) -> None:
    """The pool has a limit, so that no other process has a part in its being full."""
    with pool_like(env, resource, limit=LIMIT) as pool:
        _fill_and_empty(env, pool)


@check("POOL-35", backends=("host",), own_process=True)
def the_same_with_a_full_device(env: Env, resource: Any) -> None:
    """The check has a process to itself: idle memory of pools that other checks have used would make room beyond what
    was counted."""
    with _room_for(env, resource, LIMIT):
        before = env.device.memory_info().free
        _fill_and_empty(env, resource)
        env.device.synchronize()
        if hasattr(resource.upstream, "trim"):
            resource.upstream.trim()
        lost = before - env.device.memory_info().free
        expect(lost <= 2 * MIB, f"{lost} bytes of the device did not come back")


@contextmanager
def _room_for(env: Env, resource: Any, nbytes: int) -> Iterator[None]:
    """The device has that many bytes left."""
    if resource.device_id < 0 or resource.kind == "managed":
        raise Unsupported("memory that is not only the device's is not bound by its capacity")
    gc.collect()
    env.empty_default()
    info = env.device.memory_info()
    env.pm.knobs.set_capacity(env.device, info.total - info.free + nbytes)
    try:
        yield
    finally:
        env.pm.knobs.reset()


def _fill_and_empty(env: Env, pool: Any) -> None:
    stream = env.stream()
    filled = Filled(env, pool, stream)
    refusal = filled.until_full(_sizes(seed=1))
    reserved = pool.stats().reserved
    expect(LIMIT * 95 // 100 <= reserved <= LIMIT, f"{reserved} bytes are reserved where there is room for {LIMIT}")
    expect(filled.nbytes >= LIMIT * 85 // 100, f"{filled.nbytes} bytes are out of {reserved} that are reserved")
    filled.drop(2)
    stream.synchronize()
    with refused(OutOfMemoryError) as fragmented:
        filled.take(LIMIT * 3 // 4)
    for error in (refusal, fragmented.error):
        _tells_where_the_memory_is(error)
    half = pool.stats()
    expect(half.free_blocks > 0 and 0 < half.fragmentation <= 1, f"half of it freed, in pieces: {half!r}")
    filled.take(4 * KIB)  # after a refusal there is what there was
    filled.drop()
    expect_equal((pool.live_buffers, pool.live_bytes), (0, 0), "live buffers and bytes")
    pool.trim()
    expect_equal((pool.stats().reserved, pool.upstream.live_bytes), (0, 0), "bytes left after all were freed")


def _tells_where_the_memory_is(error: Any) -> None:
    text = str(error)
    expect(
        error.asked and error.cached is not None, f"what was asked and what is cached: {error.asked}, {error.cached}"
    )
    for word in ("asked", "cached", "largest"):
        expect(word in text.lower(), f"the text does not say {word!r}: {text}")


@check("POOL-36")
def a_thousand_times(env: Env, resource: Any) -> None:
    stream, limit = env.stream(), 8 * MIB
    with pool_like(env, resource, limit=limit) as pool:
        seen = set()
        for turn in range(1000):
            live = []
            with refused(OutOfMemoryError):
                for _ in repeat(None, 100):
                    live.append(pool.allocate(MIB, stream=stream))
            for buf in live:
                buf.close()
            if turn in (10, 500, 999):
                stream.synchronize()
                pool.trim()
                seen.add((len(live), pool.live_buffers, pool.stats().used, pool.stats().reserved))
        expect_equal(len(seen), 1, f"states {seen} after 10, 500 and 1000 turns: their number")
        with pool.allocate(MIB, stream=stream) as buf:
            buf.fill(5)
            expect_bytes(env.read(buf), b"\x05" * MIB, "memory after all of them")


@check("POOL-36", backends=("host",))
def a_thousand_times_on_a_full_device(env: Env, resource: Any) -> None:
    stream = env.stream()
    with _room_for(env, resource, 8 * MIB):
        seen = set()
        for turn in range(1000):
            live = []
            with refused(OutOfMemoryError):
                for _ in repeat(None, 100):
                    live.append(resource.allocate(MIB, stream=stream))
            for buf in live:
                buf.close()
            if turn in (10, 500, 999):
                stream.synchronize()
                resource.trim()
                seen.add((len(live), resource.live_buffers, resource.stats().reserved, env.device.memory_info().free))
        expect_equal(len(seen), 1, f"states {seen} after 10, 500 and 1000 turns: their number")


@check("POOL-37")
def no_more_than_its_limit(env: Env, resource: Any) -> None:
    stream = env.stream()
    with pool_like(env, resource, limit="16 MiB") as pool:
        expect_equal(pool.limit, 16 * MIB, "the limit")
        with refused(OutOfMemoryError, saying="limit") as refusal:
            pool.allocate(17 * MIB, stream=stream)
        error: Any = refusal.error
        expect_equal(error.asked, 17 * MIB, "asked")
        with pool.allocate(12 * MIB, stream=stream) as buf:
            env.write(buf[:4096], pattern(4096))
            with refused(OutOfMemoryError):
                pool.allocate(12 * MIB, stream=stream)
            expect_equal((pool.live_buffers, pool.live_bytes), (1, 12 * MIB), "live buffers and bytes")
            expect_bytes(env.read(buf[:4096]), pattern(4096), "memory of a pool that is at its limit")
            expect(pool.stats().reserved <= 16 * MIB, f"{pool.stats().reserved} bytes are reserved")
        for nbytes in (MIB, 12 * MIB, 3 * MIB, 12 * MIB, 64 * KIB, 12 * MIB):  # free memory makes room
            with pool.allocate(nbytes, stream=stream) as buf:
                buf.fill(1, stream=stream)
            expect(pool.stats().reserved <= 16 * MIB, f"{pool.stats().reserved} bytes are reserved")


@check("POOL-37")
def up_to_its_limit(env: Env, resource: Any) -> None:
    stream = env.stream()
    with pool_like(env, resource, limit="8 MiB") as pool:
        for _ in range(2):
            with pool.allocate(8 * MIB, stream=stream) as buf:
                buf.fill(3, stream=stream)
                expect_bytes(env.read(buf[-4096:]), b"\x03" * 4096, "the end of memory that is all a pool may have")
                expect_equal(pool.stats().reserved, 8 * MIB, "reserved")
            stream.synchronize()
            pool.trim()


@check("POOL-37")
def up_to_a_limit_of_any_size(env: Env, resource: Any) -> None:
    stream = env.stream()
    for limit in (1000, 1024, 48 * KIB, MIB + 5):
        with pool_like(env, resource, limit=limit) as pool:
            for nbytes in (limit // 4, limit, limit // 2, limit):
                with pool.allocate(nbytes, stream=stream) as buf:
                    buf.fill(5, stream=stream)
                    expect_bytes(env.read(buf), b"\x05" * nbytes, f"{nbytes} bytes of a pool with a limit of {limit}")
            parts = [pool.allocate(limit // 4, stream=stream) for _ in range(2)]
            with refused(OutOfMemoryError, saying="limit"):
                pool.allocate(limit, stream=stream)
            for part in parts:
                part.close()
            expect(pool.stats().peak <= limit, f"{pool.stats().peak} bytes were reserved under a limit of {limit}")


@check("POOL-37")
def a_small_block_has_its_own_place(env: Env, resource: Any) -> None:
    stream = env.stream()
    with pool_like(env, resource, limit="40 MiB") as pool:
        pool.allocate("32 MiB", stream=stream).close()
        for nbytes in (100, 10_000, 200 * KIB):
            with pool.allocate(nbytes, stream=stream), pool.allocate("32 MiB", stream=stream):
                expect(pool.stats().reserved <= 40 * MIB, f"{pool.stats().reserved} bytes are reserved")


@check("POOL-37")
def limits_that_are_none(env: Env, resource: Any) -> None:
    below = env.kind_of(resource).upstream
    upstream = below.make(env.pm, env.device) if below else None
    for wrong in (-1, "8 apples", "170%"):
        with refused(ValueError):
            env.pm.PoolMemoryResource(upstream, limit=wrong)
    with refused(TypeError):
        env.pm.PoolMemoryResource(upstream, limit=1.5)
