# SPDX-License-Identifier: MIT
"""Shows the clauses of pitched memory."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern
from portamem.errors import OutOfMemoryError


@check("ALLOC-17")
def rows_are_aligned_and_hold_their_bytes(env: Env, resource: Any) -> None:
    for width, height in ((1, 1), (100, 17), (256, 3), (513, 5), (4096, 2)):
        with resource.allocate_pitched(width, height) as rows:
            expect_equal((rows.width, rows.height), (width, height), "width and height")
            expect(rows.pitch >= width, f"a pitch of {rows.pitch} for rows of {width}")
            expect_equal((rows.handle % 256, rows.pitch % 256), (0, 0), "address and pitch modulo 256")
            expect_equal(rows.nbytes, rows.pitch * height, "nbytes")
            expect_equal((resource.live_buffers, resource.live_bytes), (1, rows.nbytes), "live buffers and bytes")
            data = pattern(rows.nbytes)
            env.write(rows, data)
            expect_bytes(env.read(rows), data, "pitched memory and its padding")
            expect("pitch" in repr(rows) and str(width) in repr(rows), f"repr does not say its shape: {rows!r}")
            with rows[:width] as first:
                expect(not isinstance(first, env.pm.PitchedBuffer), "a part of pitched memory claims to be pitched")
                expect_bytes(env.read(first), data[:width], "the first row as a part")
        expect("closed" in repr(rows), f"repr does not say that it is closed: {rows!r}")
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes at the end")


@check("ALLOC-17")
def pitched_memory_on_a_stream(env: Env, resource: Any) -> None:
    stream = env.stream()
    with resource.allocate_pitched(width="1 KiB", height=4, stream=stream) as rows:
        expect_equal((rows.width, rows.stream), (1024, stream), "width and stream")
        env.pm.fill_2d(rows, 9, stream=stream).synchronize()
        for number in range(4):
            with rows[number * rows.pitch : number * rows.pitch + 1024] as row:
                expect_bytes(env.read(row), b"\x09" * 1024, f"row {number}")


@check("ALLOC-18")
def rows_that_are_none(env: Env, resource: Any) -> None:
    for width, height in ((0, 4), (4, 0), (0, 0)):
        with resource.allocate_pitched(width, height) as rows:
            expect_equal((rows.handle, rows.nbytes, rows.width, rows.height), (0, 0, width, height), "empty rows")
            env.pm.fill_2d(rows, 1)
            expect_equal(resource.live_bytes, 0, "live bytes")
    uncountable: tuple[tuple[Any, Any], ...]
    uncountable = ((-1, 4), (4, -1), ("4 miles", 4), (1 << 40, 1 << 40), (1 << 63, 1), (1, 1 << 63))
    for wide, high in uncountable:
        with refused(ValueError):
            resource.allocate_pitched(wide, high)
    strange: tuple[tuple[Any, Any], ...] = ((4, 1.5), (4, "4"), (1.5, 4), (True, 4))
    for wide, high in strange:
        with refused(TypeError):
            resource.allocate_pitched(wide, high)
    with refused(OutOfMemoryError, name="OutOfMemory") as refusal:
        resource.allocate_pitched(1 << 30, 1 << 30)
    expect_equal(getattr(refusal.error, "asked", None), 1 << 60, "asked")
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes after refusals")
    with resource.allocate_pitched(64, 2) as rows:
        env.pm.fill_2d(rows, 3)
        expect_bytes(env.read(rows[:64]), b"\x03" * 64, "a row after refusals")
