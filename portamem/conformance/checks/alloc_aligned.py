# SPDX-License-Identifier: MIT
"""Shows the clause of alignments that are asked for."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern


@check("ALLOC-23")
def aligned_or_refused(env: Env, resource: Any) -> None:
    stream = env.stream()
    for alignment in (1, 16, 256, 512, 4 * KIB, 64 * KIB):
        try:
            buf = resource.allocate(1000, stream=stream, alignment=alignment)
        except ValueError as refusal:
            expect(alignment > 256 and env.kind_of(resource).cls != "PoolMemoryResource", f"{alignment}: {refusal}")
            expect(str(alignment) in str(refusal), f"the refusal of {alignment} says {refusal}")
            expect_equal(resource.live_buffers, 0, "live buffers after a refusal")
            continue
        with buf:
            expect_equal(buf.handle % alignment, 0, f"the address modulo {alignment}")
            env.pm.copy(buf, pattern(1000), stream=stream)
            expect_bytes(env.read(buf), pattern(1000), f"memory with an alignment of {alignment}")
    for wrong in (0, 3, 257, 768):
        with refused(ValueError, saying="power of two"):
            resource.allocate(1000, stream=stream, alignment=wrong)
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes at the end")


@check("ALLOC-23")
def what_a_pool_has_kept(env: Env) -> None:
    # There is so much memory of each size that it lies in all places where a pool keeps memory, most of it aligned to
    # no more than 256 bytes.
    stream, alignment = env.stream(), 64 * KIB
    for below in ("device", "pinned"):
        with env.pm.PoolMemoryResource(env.resource(below)) as pool:
            for nbytes in (256, 5000, 33 * KIB, 70 * KIB + 256, 1000 * KIB):
                plain = [pool.allocate(nbytes, stream=stream) for _ in range(min(70, 8 * MIB // nbytes))]
                stream.synchronize()
                for buf in plain:
                    buf.close()
                live = [pool.allocate(nbytes, stream=stream, alignment=alignment) for _ in range(3)]
                live += [pool.allocate(nbytes, stream=stream) for _ in range(3)]
                for seed, buf in enumerate(live):
                    env.pm.copy(buf, pattern(nbytes, seed), stream=stream)
                found = [buf.handle % alignment for buf in live[:3]]
                expect_equal(found, [0, 0, 0], f"addresses of {nbytes} bytes modulo {alignment}, over {below}")
                for seed, buf in enumerate(live):
                    expect_bytes(env.read(buf), pattern(nbytes, seed), f"aligned and plain memory, over {below}")
                    buf.close()
