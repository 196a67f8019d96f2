# SPDX-License-Identifier: MIT
"""Shows the clauses of sizes and frees by the address alone."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.threads import in_threads

SIZES = (1, 257, 4 * KIB, 40 * KIB + 1, MIB, 2 * MIB - 3)


def _released(env: Env, resource: Any, nbytes: int, stream: Any) -> int:
    """The address of memory that no Buffer owns, with a pattern in it that was read back."""
    buf = env.allocate(resource, nbytes, stream=stream)
    env.write(buf, pattern(nbytes, 3))
    expect_bytes(env.read(buf), pattern(nbytes, 3), "memory that is to be freed by its address")
    stream.synchronize()
    return int(buf.release())


@check("FREE-19")
def by_the_address_alone(env: Env, resource: Any) -> None:
    stream = env.stream()
    for nbytes in SIZES:
        where = _released(env, resource, nbytes, stream)
        expect_equal(resource.size_of(where), nbytes, "the size at an address that is out")
        expect_equal(resource.size_of(where + nbytes), None, "the size just behind the memory")
        with refused(ValueError, saying="no allocation at this address"):
            resource.deallocate(where + 1, stream=stream)
        expect_equal(resource.live_bytes, nbytes, "live bytes after a refused free")
        resource.deallocate(where, stream=stream)
        expect_soon(lambda: resource.live_bytes, 0, "live bytes after a free by the address")
        expect_equal(resource.size_of(where), None, "the size at an address that was freed")
        with refused(ValueError):
            resource.deallocate(where, stream=stream)
    expect_equal(resource.size_of(0), None, "the size at the null address")
    resource.deallocate(0, stream=stream)


@check("FREE-19")
def by_many_threads(env: Env, resource: Any) -> None:
    stream = env.stream()
    addresses = [[_released(env, resource, 100 + 300 * i, stream) for i in range(20)] for _ in range(4)]

    def work(number: int) -> None:
        for i, where in enumerate(addresses[(number + 1) % 4]):
            expect_equal(resource.size_of(where), 100 + 300 * i, "the size of another thread's memory")
            resource.deallocate(where, stream=stream)

    in_threads(work, 4)
    expect_soon(lambda: resource.live_buffers, 0, "live buffers after frees by the address")
