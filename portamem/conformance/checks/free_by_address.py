# SPDX-License-Identifier: MIT
"""Shows the clauses of sizes and frees by the address alone."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect_bytes, expect_equal, expect_soon, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.threads import in_threads

# Kinds of resources that keep no sizes.
WITHOUT_SIZES = ("FixedSizeMemoryResource", "MonotonicMemoryResource", "CallbackMemoryResource")
SIZES = (1, 257, 4 * KIB, 40 * KIB + 1, MIB, 5 * MIB + 3)


def _keeps_sizes(resource: Any) -> bool:
    return type(resource).__name__ not in WITHOUT_SIZES


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
        if not _keeps_sizes(resource):
            break
        where = _released(env, resource, nbytes, stream)
        expect_equal(resource.size_of(where), nbytes, "the size at an address that is out")
        expect_equal(resource.size_of(where + nbytes), None, "the size just behind the memory")
        with refused(ValueError, saying="size"):
            resource.deallocate(where + 1, stream=stream)
        expect_equal(resource.live_bytes, nbytes, "live bytes after a refused free")
        resource.deallocate(where, stream=stream)
        expect_soon(lambda: resource.live_bytes, 0, "live bytes after a free by the address")
        expect_equal(resource.size_of(where), None, "the size at an address that was freed")
        with refused(ValueError):
            resource.deallocate(where, stream=stream)
    if not _keeps_sizes(resource):
        where = _released(env, resource, 1000, stream)
        expect_equal(resource.size_of(where), None, "the size where none is kept")
        with refused(ValueError, saying="keeps no sizes"):
            resource.deallocate(where, stream=stream)
        expect_equal(resource.live_bytes, 1000, "live bytes after a refused free")
        resource.deallocate(where, 1000, stream=stream)
    expect_equal(resource.size_of(0), None, "the size at the null address")
    resource.deallocate(0, stream=stream)


@check("FREE-19")
def by_many_threads(env: Env, resource: Any) -> None:
    stream, keeps_sizes = env.stream(), _keeps_sizes(resource)
    addresses = [[_released(env, resource, 100 + 300 * i, stream) for i in range(20)] for _ in range(4)]

    def work(number: int) -> None:
        for i, where in enumerate(addresses[(number + 1) % 4]):
            nbytes = 100 + 300 * i
            expect_equal(
                resource.size_of(where), nbytes if keeps_sizes else None, "the size of another thread's memory"
            )
            resource.deallocate(where, None if keeps_sizes else nbytes, stream=stream)

    in_threads(work, 4)
    expect_soon(lambda: resource.live_buffers, 0, "live buffers after frees by the address")
