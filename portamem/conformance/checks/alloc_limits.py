# SPDX-License-Identifier: MIT
"""Shows the clauses of sizes, of those that are none, and of running out of memory."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB, pattern
from portamem.conformance.kit.outcome import Unsupported
from portamem.errors import OutOfMemoryError

MORE_THAN_THERE_IS = 1 << 50


class _Index:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class _Broken:
    def __index__(self) -> int:
        raise RuntimeError("mine")


SIZES: tuple[tuple[Any, int], ...] = (
    *((16, 16), (_Index(16), 16), ("16", 16), ("16 B", 16), (0, 0), ("0 GiB", 0)),
    *(("1 KiB", 1 << 10), ("1KiB", 1 << 10), ("1 kib", 1 << 10), ("  2 KiB ", 2 << 10), ("0.5 MiB", 1 << 19)),
    *(("1 kB", 1000), ("2.5 MB", 2_500_000), ("0.001 GB", 1_000_000), ("3 MiB", 3 << 20)),
)
NO_SIZES: tuple[Any, ...] = (
    *(-1, -(1 << 70), _Index(-5)),
    *("", " ", "MiB", "64 miles", "64 MiB extra", "1e3", "0x10", "nan KiB", "inf", "1,5 KiB", "-1", "-1 KiB", "0.3 B"),
    *(1 << 63, 1 << 64, (1 << 64) + 1, 1 << 200, "16 EiB", "99999999999 TiB"),
)
NO_TYPES: tuple[Any, ...] = (1.5, 16.0, None, [16], b"16", 1j, object(), True, False)


@check("ALLOC-09")
def sizes_are_ints_or_text(env: Env) -> None:
    resource = env.resource("device")
    for size, nbytes in SIZES:
        with resource.allocate(size) as buf:
            expect_equal(buf.nbytes, nbytes, f"nbytes of allocate({size!r})")
            data = pattern(nbytes)
            env.write(buf, data)
            expect_bytes(env.read(buf), data, f"a buffer of {size!r}")
    with resource.allocate("4 KiB") as buf, buf.view("uint8", 16, offset="1 KiB") as view:
        expect_equal(view.handle - buf.handle, 1024, "an offset of '1 KiB'")


@check("ALLOC-10")
def what_is_no_size_is_refused(env: Env) -> None:
    resource = env.resource("device")
    with resource.allocate(64) as keeper:
        keeper.fill(7)
        for size in NO_SIZES:
            with refused(ValueError):
                resource.allocate(size)
        for size in NO_TYPES:
            with refused(TypeError, saying=type(size).__name__ if size is not None else "NoneType"):
                resource.allocate(size)
        with refused(ValueError, saying="negative"):
            resource.allocate(-1)
        with refused(ValueError, saying="larger than any memory"):
            resource.allocate(1 << 63)
        with refused(RuntimeError, saying="mine"):
            resource.allocate(_Broken())
        expect_equal((resource.live_buffers, resource.live_bytes), (1, 64), "live buffers and bytes after refusals")
        expect_bytes(env.read(keeper), b"\x07" * 64, "the buffer that was live")


@check("ALLOC-11")
def out_of_memory_and_then_success(env: Env, resource: Any) -> None:
    with env.allocate(resource, 4096) as keeper:
        env.write(keeper, pattern(4096))
        for asked in (MORE_THAN_THERE_IS, 1 << 62) if resource.kind == "device" else (MORE_THAN_THERE_IS,):
            with refused(OutOfMemoryError, name="OutOfMemory") as refusal:
                env.allocate(resource, asked)
            error: Any = refusal.error
            expect(isinstance(error, MemoryError), "the exception is no MemoryError")
            expect_equal((error.asked, error.code, error.backend), (asked, 2, env.pm.backend), "asked, code, backend")
            expect(error.call and error.call in str(error), f"the text names no call: {error}")
            expect_equal((resource.live_buffers, resource.live_bytes), (1, 4096), "live buffers and bytes")
        with env.allocate(resource, MIB) as buf:
            env.write(buf, pattern(MIB, 1))
            expect_bytes(env.read(buf), pattern(MIB, 1), "memory allocated after running out")
        expect_bytes(env.read(keeper), pattern(4096), "memory that was live all the while")


@check("ALLOC-11", backends=("host",))
def pinned_memory_has_an_end(env: Env) -> None:
    """All pinned and registered memory together is no more than the machine has."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    resource = env.resource("pinned")
    for asked in (machine + 1, 10 * machine):
        with refused(OutOfMemoryError, name="OutOfMemory"):
            resource.allocate(asked)
    with contextlib.ExitStack() as held, refused(OutOfMemoryError, name="OutOfMemory"):
        for _ in range(9):  # where a memory group gives less, it ends sooner
            held.enter_context(resource.allocate(machine // 8))
    with resource.allocate(MIB) as buf:
        env.write(buf, pattern(MIB))
        expect_bytes(env.read(buf), pattern(MIB), "memory allocated after running out")


def _need_any_size(env: Env, resource: Any) -> None:
    if env.kind_of(resource).cls == "FixedSizeMemoryResource":
        raise Unsupported("its blocks have one size: more than that is no memory that could be short")


@check("ALLOC-12")
def the_figures_are_told(env: Env, resource: Any) -> None:
    _need_any_size(env, resource)
    plain = env.resource("device")
    with plain.allocate(8 * MIB) as held, refused(OutOfMemoryError, saying="1024 TiB") as it:
        held.fill(1)
        env.allocate(resource, MORE_THAN_THERE_IS)
    error: Any = it.error
    text = str(error)
    total = env.device.memory_info().total
    expect_equal(error.asked, MORE_THAN_THERE_IS, "asked")
    expect(8 * MIB <= error.used <= total, f"used is {error.used} with {8 * MIB} bytes held")
    expect(0 <= error.free <= total, f"free is {error.free} of {total}")
    expect(0 <= error.used_by_others <= total - error.free, f"used_by_others is {error.used_by_others} of {total}")
    if not env.kind_of(resource).cls:
        expect((error.cached is None) == (resource.kind != "async"), f"cached is {error.cached}")
    for word in ("asked", "hold", "free", "others", "close buffers"):
        expect(word in text, f"the text does not say {word!r}: {text}")
    expect("MiB" in text or "GiB" in text, f"the text has no sizes for people: {text}")


@check("ALLOC-12", backends=("host",))
def the_figures_are_right(env: Env, resource: Any) -> None:
    """With a capacity set, all of them are known."""
    _need_any_size(env, resource)
    stream, knobs = env.device.default_stream, env.pm.knobs
    other = env.resource("device")
    of_driver = resource.kind == "async" and not env.kind_of(resource).cls
    if of_driver and resource.owns_pool:
        resource.allocate(16 * MIB, stream=stream).close()
        stream.synchronize()
    with other.allocate(8 * MIB) as held:
        held.fill(1)
        env.empty_default()
        held_before = env.pm.held(env.device)
        cached = resource.reserved - resource.used if of_driver else None
        knobs.set_capacity(env.device, 64 * MIB)
        try:
            info = env.device.memory_info()
            with refused(OutOfMemoryError) as it:
                env.allocate(resource, 100 * MIB)
        finally:
            knobs.reset()
    error: Any = it.error
    expect_equal(info.total, 64 * MIB, "the total under a capacity")
    expect_equal((error.asked, error.used, error.free), (100 * MIB, held_before, info.free), "asked, used and free")
    if not env.kind_of(resource).keeps and not (resource.kind == "async" and not of_driver):
        expect_equal(error.cached, cached, "cached")
    others = info.total - info.free - held_before - (cached or 0)
    expect_equal(error.used_by_others, max(others, 0), "used_by_others")
    for figure in ("100 MiB", "64 MiB"):
        expect(figure in str(error), f"the text does not say {figure}: {error}")
    if cached:
        expect("trim()" in str(error), f"the text does not say what would help: {error}")


@check("ALLOC-13")
def a_full_device_lends_nothing_twice(env: Env, resource: Any) -> None:
    knobs = env.pm.knobs
    env.empty_default()
    info = env.device.memory_info()
    reserved = resource.reserved if resource.kind == "async" else 0  # the pool need not get memory that it has
    knobs.set_capacity(env.device, info.total - info.free + 64 * MIB - reserved)
    live: list[Any] = []
    try:
        with refused(OutOfMemoryError):
            while len(live) <= 64:
                live.append(env.allocate(resource, 4 * MIB))
        expect(8 <= len(live) <= 16, f"64 MiB held {len(live)} buffers of 4 MiB")
        for value, buf in enumerate(live):
            buf.fill(value)
        live.pop().close()
        env.device.synchronize()
        with env.allocate(resource, 4 * MIB) as again:
            again.fill(0xEE)
            expect_bytes(env.read(again), b"\xee" * (4 * MIB), "memory that had been given back")
        for value, buf in enumerate(live):
            expect_bytes(env.read(buf), bytes([value]) * (4 * MIB), f"buffer {value} of a full device")
            buf.close()
        if resource.kind == "async":
            env.device.synchronize()
            resource.trim()
        with env.resource("device").allocate(32 * MIB) as other:
            other.fill(1)
    finally:
        knobs.reset()


@check("ALLOC-13", backends=("host",))
def one_full_device_leaves_the_other_alone(env: Env, resource: Any) -> None:
    there = env.resource("device", env.other_device)
    env.empty_default()
    env.pm.knobs.set_capacity(env.device, env.device.memory_info().total - env.device.memory_info().free)
    try:
        with refused(OutOfMemoryError):
            env.allocate(resource, 64 * MIB)
        with there.allocate(16 * MIB) as buf:
            buf.fill(3)
            expect_bytes(env.read(buf[:4096]), b"\x03" * 4096, "memory of the other device")
    finally:
        env.pm.knobs.reset()
