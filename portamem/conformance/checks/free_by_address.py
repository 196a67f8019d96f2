# SPDX-License-Identifier: MIT
"""Shows the clauses of memory that is known by its address alone."""

from __future__ import annotations

import os
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, expect_soon, refused
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


def _nothing_is_known(env: Env, where: int, what: str) -> None:
    expect_equal(env.pm.resource_of(where), None, f"the resource of {what}")
    expect_equal(env.pm.size_of(where), None, f"the size at {what}")
    info = env.pm.pointer_info(where)
    told = info.resource, info.block_base, info.block_nbytes
    expect_equal(told, (None, None, None), f"the block of {what}")


@check("FREE-20")
def the_resource_of_an_address(env: Env, resource: Any) -> None:
    stream = env.stream()
    for nbytes in SIZES:
        where = _released(env, resource, nbytes, stream)
        expect(env.pm.resource_of(where) is resource, "another resource is found at an address that is out")
        expect_equal(env.pm.size_of(where), nbytes, "the size at an address that is out")
        expect_equal(env.pm.resource_of(where + 1), None, "the resource of an address inside of the memory")
        expect_equal(env.pm.size_of(where + 1), None, "the size at an address inside of the memory")
        out = resource.live_bytes  # redzones count too
        for wrong in (where + 1, where + nbytes):
            with refused(ValueError):
                env.pm.deallocate(wrong, stream=stream)
        expect_equal(resource.live_bytes, out, "live bytes after a refused free")
        env.pm.deallocate(where, stream=stream)
        expect_soon(lambda: resource.live_bytes, 0, "live bytes after a free by the address")
        _nothing_is_known(env, where, "an address that was freed")
        with refused(ValueError):
            env.pm.deallocate(where, stream=stream)
    env.pm.deallocate(0)
    with env.allocate(resource, KIB, stream=stream) as buf:
        expect(env.pm.resource_of(buf) is resource, "another resource is found for a buffer")
        expect_equal(env.pm.size_of(buf), KIB, "the size of a buffer")
    _nothing_is_known(env, 0, "the null address")


@check("FREE-20")
def the_outermost_resource_is_found(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.pm.StatisticsAdaptor(resource) as counts, env.pm.LimitingAdaptor(counts, limit=64 * MIB) as limited:
        for one in (limited, resource, counts, limited):
            with env.allocate(one, 4 * KIB, stream=stream) as buf:
                expect(env.pm.resource_of(buf) is one, f"memory of {one!r} is found to be another's")
                expect(env.pm.pointer_info(buf).resource is one, f"memory of {one!r} is told to be another's")


@check("FREE-20")
def the_resource_of_other_threads_memory(env: Env, resource: Any) -> None:
    stream = env.stream()
    addresses = [[_released(env, resource, 100 + 300 * i, stream) for i in range(20)] for _ in range(4)]

    def work(number: int) -> None:
        for i, where in enumerate(addresses[(number + 1) % 4]):
            expect_equal(env.pm.size_of(where), 100 + 300 * i, "the size of another thread's memory")
            expect(env.pm.resource_of(where) is resource, "another thread's memory is found to be another's")
            env.pm.deallocate(where, stream=stream)

    in_threads(work, 4)
    expect_soon(lambda: resource.live_buffers, 0, "live buffers after frees by the address")


@check("POINTER-11")
def pointer_info_tells_the_block(env: Env, resource: Any) -> None:
    stream = env.stream()
    is_inside_told = env.kind_of(resource).cls == "PoolMemoryResource" and os.environ.get("PORTAMEM_DEBUG") != "1"
    for nbytes in SIZES:
        where = _released(env, resource, nbytes, stream)
        for offset in {0, nbytes // 2, nbytes - 1} if is_inside_told else {0}:
            info = env.pm.pointer_info(where + offset)
            told = info.block_base, info.block_nbytes
            expect_equal(told, (where, nbytes), f"the block at {offset} bytes from its beginning")
            expect(info.resource is resource, f"another resource is told {offset} bytes from the beginning")
        resource.deallocate(where, stream=stream)
        expect_soon(lambda: resource.live_bytes, 0, "live bytes after a free by the address")
        _nothing_is_known(env, where, "an address that was freed")


@check("POOL-53")
def a_chunk_is_no_block(env: Env, resource: Any) -> None:
    stream = env.stream()
    nbytes = 8 * MIB
    for _ in range(3):
        where = _released(env, resource, nbytes, stream)
        expect(env.pm.resource_of(where) is resource, "a pool's block is found to be another's")
        resource.deallocate(where, stream=stream)
        expect_soon(lambda: resource.live_bytes, 0, "live bytes after a free by the address")
        kept = resource.upstream.live_bytes
        _nothing_is_known(env, where, "memory that the pool keeps")
        with refused(ValueError):
            resource.deallocate(where, stream=stream)
        expect_equal(resource.upstream.live_bytes, kept, "bytes of the upstream after a second free")
        resource.trim()
        _nothing_is_known(env, where, "memory that the pool has given back")
