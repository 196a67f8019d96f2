# SPDX-License-Identifier: MIT
"""Shows the clauses of allocation, alignment and zero sizes."""

from __future__ import annotations

from typing import Any

from portamem.conformance.check import check
from portamem.conformance.env import Env
from portamem.conformance.expect import expect, expect_bytes, expect_equal
from portamem.conformance.memory import overlapping, pattern

SIZES = (1, 7, 256, 4096, 65_537, 1 << 20)


@check("ALLOC-01")
def every_byte_is_there(env: Env, resource: Any) -> None:
    for seed, nbytes in enumerate(SIZES):
        with env.allocate(resource, nbytes) as buf:
            expect_equal(buf.nbytes, nbytes, "nbytes")
            expect(buf.handle != 0, f"{nbytes} bytes are at address 0")
            data = pattern(nbytes, seed)
            env.write(buf, data)
            expect_bytes(env.read(buf), data, f"{nbytes} bytes of {resource.kind} memory")


@check("ALLOC-02")
def live_buffers_do_not_overlap(env: Env, resource: Any) -> None:
    other = env.resource("device")
    buffers = [env.allocate(each, nbytes) for nbytes in SIZES for each in (resource, other) for _ in range(3)]
    for seed, buf in enumerate(buffers):
        env.write(buf, pattern(buf.nbytes, seed))
    expect_equal(overlapping(buffers), [], "the list of overlapping buffers")
    for seed, buf in enumerate(buffers):
        expect_bytes(env.read(buf), pattern(buf.nbytes, seed), f"buffer {seed} after all others were written")
        buf.close()


@check("ALLOC-03")
def nothing_is_an_allocation_too(env: Env, resource: Any) -> None:
    with env.allocate(resource, 0) as empty, env.allocate(resource, 0) as another:
        expect_equal((empty.nbytes, empty.handle), (0, 0), "size and address")
        empty.fill(1)
        empty.copy_from(another)
        expect_equal(env.read(empty), b"", "its contents")
