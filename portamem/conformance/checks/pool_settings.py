# SPDX-License-Identifier: MIT
"""Shows what the environment says to pools. It is read once, so each check has a process of its own, or several."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from portamem.conformance.checks.capture import captured
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.together import together
from portamem.errors import OutOfMemoryError

OFF = {"PORTAMEM_POOL": "off"}
LIMIT = {"PORTAMEM_POOL_LIMIT": "8 MiB"}


@check("POOL-42", environment=OFF)
def each_buffer_is_one_of_the_resource_below(env: Env, resource: Any) -> None:
    stream, upstream = env.stream(), resource.upstream
    buffers = []
    for number, nbytes in enumerate((1, 5000, 64 * KIB, MIB + 1)):
        buf = resource.allocate(nbytes, stream=stream)
        env.pm.copy(buf, pattern(nbytes, number), stream=stream)
        buffers.append(buf)
        sizes = sum(each.nbytes for each in buffers)
        found = (upstream.live_buffers, upstream.live_bytes, resource.live_buffers, resource.live_bytes)
        expect_equal(
            found, (number + 1, sizes, number + 1, sizes), "buffers and bytes of the one below and of the pool"
        )
    for number, buf in enumerate(buffers):
        expect_bytes(env.read(buf), pattern(buf.nbytes, number), "memory that was passed through")
        stream.synchronize()
        buf.close()
        expect_equal(upstream.live_buffers, 3 - number, "buffers of the one below after a close")
    stats = resource.stats()
    expect_equal((stats.used, stats.reserved, stats.hits), (0, 0, 0), "used, reserved and hits")


@check("POOL-42", environment=OFF)
def what_is_wrong_is_refused_as_ever(env: Env, resource: Any) -> None:
    stream = env.stream()
    where = resource.allocate(4 * KIB, stream=stream).release()
    with refused(ValueError, saying="size"):
        resource.deallocate(where, 8 * KIB, stream=stream)
    resource.deallocate(where, 4 * KIB, stream=stream)
    with refused(ValueError):
        resource.deallocate(where, 4 * KIB, stream=stream)
    with captured(stream), refused(ValueError, saying="captured"):
        resource.allocate(4 * KIB, stream=stream)
    expect_equal((resource.live_buffers, resource.upstream.live_buffers), (0, 0), "live buffers")
    with env.pm.PoolMemoryResource(resource.upstream, limit=MIB) as limited:
        with limited.allocate(768 * KIB, stream=stream) as buf, refused(OutOfMemoryError, saying="limit"):
            buf.fill(1, stream=stream)
            limited.allocate(512 * KIB, stream=stream)
        with limited.allocate(MIB, stream=stream) as buf:
            buf.fill(2, stream=stream)
            expect_bytes(env.read(buf), b"\x02" * MIB, "memory up to the limit")


@check("POOL-42", environment=OFF)
def the_default_passes_through(env: Env) -> None:
    default = env.pm.current_resource(env.device)
    with env.pm.zeros(5000, "uint8", device=env.device) as view:
        expect_bytes(env.read(view), bytes(5000), "memory of the default")
        expect_equal((default.upstream.live_buffers, default.upstream.live_bytes), (1, 5000), "what the one below gave")
    env.device.synchronize()
    expect_equal((default.upstream.live_buffers, env.pm.held(env.device)), (0, 0), "what is left of it")


@check("POOL-43", environment=LIMIT)
def pools_without_a_limit_have_it(env: Env) -> None:
    stream = env.stream()
    with env.pm.PoolMemoryResource(env.resource("device")) as pool:
        _keeps_to_8_mib(env, pool, stream)
    _keeps_to_8_mib(env, env.pm.current_resource(env.device), stream)


def _keeps_to_8_mib(env: Env, pool: Any, stream: Any) -> None:
    expect_equal(pool.limit, 8 * MIB, f"the limit of {pool!r}")
    with pool.allocate(5 * MIB, stream=stream) as buf:
        env.pm.copy(buf, pattern(5 * MIB), stream=stream)
        with refused(OutOfMemoryError, saying=f"limit of {8 * MIB} bytes"):
            pool.allocate(4 * MIB, stream=stream)
        with pool.allocate(MIB, stream=stream) as more:
            more.fill(0xFF, stream=stream)
        expect_bytes(env.read(buf), pattern(5 * MIB), "memory that was out when the limit was met")
        expect(pool.stats().reserved <= 8 * MIB, f"{pool.stats().reserved} bytes are reserved")
    stream.synchronize()
    with pool.allocate(7 * MIB, stream=stream) as buf:
        buf.fill(3, stream=stream)
        expect_bytes(env.read(buf), b"\x03" * (7 * MIB), "memory that needed what was free")


@check("POOL-43", environment=LIMIT)
def pools_without_a_limit_share_it(env: Env) -> None:
    stream, pm = env.stream(), env.pm
    with (
        pm.PoolMemoryResource(env.resource("device")) as first,
        pm.PoolMemoryResource(env.resource("device")) as second,
    ):
        buf = first.allocate(5 * MIB, stream=stream)
        pm.copy(buf, pattern(5 * MIB), stream=stream)
        for other in (second, pm.current_resource(env.device)):
            with refused(OutOfMemoryError, saying=f"limit of {8 * MIB} bytes"):
                other.allocate(5 * MIB, stream=stream)
        expect_bytes(env.read(buf), pattern(5 * MIB), "memory of the pool that was there first")
        expect_equal((first.live_bytes, second.live_bytes), (5 * MIB, 0), "bytes that are out")
        buf.close()
        first.trim()
        with second.allocate(5 * MIB, stream=stream) as taken:
            taken.fill(9, stream=stream)
            expect_bytes(env.read(taken), b"\x09" * (5 * MIB), "memory that another pool has given back")


@check("POOL-43", environment=LIMIT)
def none_takes_what_others_need(env: Env) -> None:
    stream, pm = env.stream(), env.pm
    with (
        pm.PoolMemoryResource(env.resource("device")) as first,
        pm.PoolMemoryResource(env.resource("device")) as second,
        first.allocate(1000, stream=stream) as small,
    ):
        small.fill(1, stream=stream)
        with second.allocate(4 * MIB, stream=stream) as large:
            large.fill(2, stream=stream)
            expect_bytes(env.read(large), b"\x02" * (4 * MIB), "memory within what the first pool has left")
            reserved = first.stats().reserved + second.stats().reserved
            expect(reserved <= 8 * MIB, f"{reserved} bytes are reserved under a limit of 8 MiB")
        expect_bytes(env.read(small), b"\x01" * 1000, "memory of the first pool")


@check("POOL-43", environment=LIMIT)
def other_pools_have_their_own(env: Env) -> None:
    stream, pm = env.stream(), env.pm
    pools = {"pinned": pm.PoolMemoryResource(env.resource("pinned"))}
    pools["device"] = pm.PoolMemoryResource(env.resource("device"), limit="32 MiB")
    expect_equal((pools["pinned"].limit, pools["device"].limit), (None, 32 * MIB), "limits of pinned and of their own")
    for name, pool in pools.items():
        with pool, pool.allocate(16 * MIB, stream=stream) as buf:
            buf.fill(5, stream=stream)
            expect_bytes(env.read(buf), b"\x05" * (16 * MIB), f"more {name} memory than PORTAMEM_POOL_LIMIT")


# Others on this machine may have pools on the device as well: how many share it is told from the share itself.
SHARED = """
    import subprocess, time
    device, pool = pm.Device(0), pm.PoolMemoryResource(device=0)
    stream, share = pm.Stream(device), device.memory_info().total // 100

    def sharers():
        limit = pool.limit  # it may be another one a moment later
        n = round(share / limit)
        assert n > 0 and abs(limit - share // n) <= 1 + share // 1000, (limit, share, n)
        return n

    buf = pool.allocate(pool.limit // 8, stream=stream)
    buf.fill(7, stream=stream)
    if len(sys.argv) > 1:
        print(sharers(), flush=True)
        sys.stdin.read()  # until the other has looked
        sys.exit()

    command = [*sys.orig_argv, "second"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    theirs = int(other.stdout.readline())
    both = sharers()
    assert theirs >= 2 and both >= 2, (theirs, both)
    try:
        pool.allocate(share * 7 // 8, stream=stream)
    except portamem.OutOfMemoryError as error:
        assert "limit" in str(error), error
    else:
        raise AssertionError("a pool got nearly all of a share that others have part in")
    other.communicate("")
    assert other.returncode == 0
    deadline = time.monotonic() + 45  # others have their part in the share for as long as their own checks take
    while sharers() >= both:
        assert time.monotonic() < deadline, "the share of a process that ended is nobody's"
        time.sleep(0.01)
    found = bytearray(buf.nbytes)
    pm.copy(found, buf)
    assert found == bytes([7]) * buf.nbytes
    buf.close()
    print("shared")
"""


@check("POOL-44")
def a_percentage_is_shared(env: Env) -> None:
    said = env.output("import portamem\n" + dedent(SHARED), PORTAMEM_POOL_LIMIT="1%")
    expect_equal(said.strip(), "shared", "what two processes found")


SHRINKS = """
    import subprocess
    device, pool = pm.Device(0), pm.PoolMemoryResource(device=0)
    stream = pm.Stream(device)
    if len(sys.argv) > 1:
        print(pool.limit, flush=True)
        sys.stdin.read()
        sys.exit()
    deadline, seen = time.monotonic() + 30, "nothing"
    while time.monotonic() < deadline:  # other programs with such pools may come and go while this looks
        pool.trim()
        with contextlib.ExitStack() as last:
            try:
                limit = pool.limit  # most of it, so that one more is one too many also where several share it
                sizes = (limit // 20, *[limit * 28 // 100] * 3)
                buffers = [last.enter_context(pool.allocate(size, stream=stream)) for size in sizes]
            except portamem.OutOfMemoryError as error:
                seen = error
                time.sleep(0.05)
                continue
            stream.synchronize()
            before = pool.stats().reserved
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            other = subprocess.Popen([*sys.orig_argv, "second"], text=True, **pipes)
            other.stdout.readline()
            for buf in buffers[1:]:
                time.sleep(0.05)
                buf.close()
            left, limit, live = pool.stats().reserved, pool.limit, buffers[0].nbytes + (2 << 20)
            other.communicate("")
        if limit < before and left <= max(limit, live):
            break
        seen = f"{before} bytes became {left}, of a limit of {limit}, when another came"
    else:
        raise AssertionError(seen)
    print("given back")
"""


@check("POOL-44")
def what_is_beyond_the_share_goes_back(env: Env) -> None:
    percent = 100 * 600 * MIB // env.device.memory_info().total + 1  # blocks of that in a few are in no cache
    ended = env.output("import contextlib, portamem, time\n" + dedent(SHRINKS), PORTAMEM_POOL_LIMIT=f"{percent}%")
    expect_equal(ended.strip(), "given back", "what a process did when another came")


@check("POOL-45")
def settings_that_cannot_be_read(env: Env) -> None:
    uses = ("pm.PoolMemoryResource(device=0)", "pm.zeros(4, device=0)", "pm.current_resource(0)")
    wrong = ("PORTAMEM_POOL", "no"), ("PORTAMEM_POOL_LIMIT", "plenty"), ("PORTAMEM_POOL_LIMIT", "100.5%")
    cases = [(use, *setting) for use, setting in zip(uses, wrong, strict=True)]
    for (use, name, value), ended in together(lambda case: env.run(case[0], **{case[1]: case[2]}), cases):
        expect_equal(ended.status, 1, f"the exit status of {use} with {name}={value}")
        expect(f"ValueError: {name}={value}" in ended.stderr, f"it said {ended.stderr!r}")
    good = "with pm.zeros(1000, 'uint8', device=0) as view: print(view.to_numpy().any())"
    expect_equal(
        env.output(good, PORTAMEM_POOL="", PORTAMEM_POOL_LIMIT="").strip(), "False", "memory with empty settings"
    )
