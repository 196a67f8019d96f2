# SPDX-License-Identifier: MIT
"""Shows what pools refuse, and that nothing has changed then: wrong frees, wrong streams, captured streams."""

from __future__ import annotations

import ctypes
from typing import Any

from portamem.conformance.checks.capture import MODES, captured
from portamem.conformance.kit.check import check
from portamem.conformance.kit.ends import NBYTES, NEW
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import MIB

NEVER_GIVEN = 0x1000


def _largest(resource: Any, nbytes: int) -> int:
    """So many bytes, or those of a block where the resource gives no larger ones."""
    return min(nbytes, getattr(resource, "block_size", nbytes))


@check("POOL-27")
def frees_that_are_wrong(env: Env, resource: Any) -> None:
    stream = env.device.default_stream
    theirs = (ctypes.c_char * 64).from_buffer(bytearray(b"\x07" * 64))
    most = _largest(resource, 8 * MIB)
    with (
        env.resource("device").allocate(NBYTES) as stranger,
        resource.allocate(NBYTES, stream=stream) as keeper,
        resource.allocate(most, stream=stream) as large,
    ):
        for buf in (keeper, large):
            buf.fill(0x5A)
        stranger.fill(0x33)
        wrong: dict[str, tuple[int, int]] = {
            "an address that nobody gave": (NEVER_GIVEN, 16),
            "an address inside a buffer": (keeper.handle + 256, NBYTES - 256),
            "the middle of a large buffer": (large.handle + most // 2, most // 2),
            "an odd address": (keeper.handle + 1, 16),
            "memory of a Python object": (ctypes.addressof(theirs), 64),
            "memory of another resource": (stranger.handle, NBYTES),
            "a smaller size": (keeper.handle, 16),
            "a larger size": (keeper.handle, 2 * NBYTES),
            "a smaller size of a large buffer": (large.handle, most // 2),
            "a byte less": (keeper.handle, NBYTES - 1),
            "a byte more": (keeper.handle, NBYTES + 1),
            "a byte less of a large buffer": (large.handle, most - 1),
        }
        for what, (address, nbytes) in wrong.items():
            with refused(ValueError):
                resource.deallocate(address, nbytes, stream=stream)
            counted = (resource.live_buffers, resource.live_bytes)
            expect_equal(counted, (2, NBYTES + most), f"live buffers and bytes after a free of {what}")
        for buf, value in ((keeper, 0x5A), (large, 0x5A), (stranger, 0x33)):
            expect_bytes(env.read(buf), bytes([value]) * buf.nbytes, "memory after frees that were refused")
    expect_bytes(bytes(theirs), b"\x07" * 64, "the object's bytes")


@check("POOL-27")
def a_second_free(env: Env, resource: Any) -> None:
    stream = env.stream()
    for nbytes in (100, NBYTES, MIB, _largest(resource, 80 * MIB)):
        with resource.allocate(nbytes, stream=stream) as keeper:
            keeper.fill(0x5A, stream=stream)
            address = resource.allocate(nbytes, stream=stream).release()
            resource.deallocate(address, nbytes, stream=stream)
            for _ in range(2):
                with refused(ValueError):
                    resource.deallocate(address, nbytes, stream=stream)
                expect_equal((resource.live_buffers, resource.live_bytes), (1, nbytes), "live buffers and bytes")
            with resource.allocate(nbytes, stream=stream) as one, resource.allocate(nbytes, stream=stream) as other:
                expect(one.handle != other.handle, "memory that was freed twice is handed out twice")
            expect_bytes(env.read(keeper[:4096]), b"\x5a" * min(nbytes, 4096), "memory beside what was freed twice")
    expect_equal(resource.live_buffers, 0, "live buffers")


@check("POOL-28")
def any_stream_of_the_device_may_free(env: Env, resource: Any) -> None:
    streams = [env.stream(), env.stream(), env.device.default_stream]
    for turn in range(12):
        buf = resource.allocate(NBYTES, stream=streams[turn % 3])
        buf.fill(turn, stream=streams[turn % 3])
        address = buf.release()
        streams[(turn + 1) % 3].wait(streams[turn % 3])
        resource.deallocate(address, NBYTES, stream=streams[(turn + 1) % 3])
        expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")
        with resource.allocate(NBYTES, stream=streams[(turn + 2) % 3]) as other:
            other.fill(0xFF, stream=streams[(turn + 2) % 3])
            expect_bytes(env.read(other), b"\xff" * NBYTES, "memory that another stream gave back")


@check("POOL-28")
def a_stream_of_another_device(env: Env, resource: Any) -> None:
    elsewhere, stream = env.stream(env.other_device), env.stream()
    with resource.allocate(NBYTES, stream=stream) as keeper:
        env.write(keeper, NEW)
        with refused(ValueError, saying="device"):
            resource.allocate(NBYTES, stream=elsewhere)
        address = resource.allocate(NBYTES, stream=stream).release()
        with refused(ValueError, saying="device"):
            resource.deallocate(address, NBYTES, stream=elsewhere)
        expect_equal((resource.live_buffers, resource.live_bytes), (2, 2 * NBYTES), "live buffers and bytes")
        resource.deallocate(address, NBYTES, stream=stream)
        expect_bytes(env.read(keeper), NEW, "memory after refusals")


@check("POOL-29")
def a_captured_stream_takes_what_is_there(env: Env, resource: Any) -> None:
    env.need(env.device.probe().stream_capture, "stream_capture")
    stream = env.stream()
    for mode in MODES:
        for _ in range(2):
            with resource.allocate(NBYTES, stream=stream) as buf:
                buf.fill(1, stream=stream)
            stream.synchronize()
        misses = resource.stats().misses
        with captured(stream, mode, during="allocating from a pool"):
            with resource.allocate(NBYTES, stream=stream) as buf:
                expect(buf.handle != 0, "the address is 0")
            expect_equal(resource.stats().misses, misses, "misses under capture")
        stream.synchronize()
        with resource.allocate(NBYTES, stream=stream) as buf:
            buf.fill(7, stream=stream)
            expect_bytes(env.read(buf), b"\x07" * NBYTES, "memory after a capture")
    expect_equal(resource.live_buffers, 0, "live buffers")


@check("POOL-30")
def a_miss_under_capture(env: Env, resource: Any) -> None:
    env.need(env.device.probe().stream_capture, "stream_capture")
    stream, other = env.stream(), env.stream()
    with resource.allocate(NBYTES, stream=other) as keeper:
        env.write(keeper, NEW)
        for mode in MODES:
            before = resource.stats().reserved
            with captured(stream, mode, during="a miss of a pool"):
                for nbytes in (256 * MIB, 1 << 50):
                    with refused(ValueError, saying="captur"):
                        resource.allocate(nbytes, stream=stream)
                    expect_equal((resource.live_buffers, resource.live_bytes), (1, NBYTES), "live buffers and bytes")
                expect_equal(stream.capture_status, "active", "the capture")
                with resource.allocate(3 * MIB, stream=other) as beside:  # the capture does not bind another stream
                    beside.fill(2, stream=other).synchronize()
                    expect_bytes(env.read(beside[:4096]), b"\x02" * 4096, "memory of a stream beside the capture")
            expect(resource.stats().reserved >= before, "the pool gave memory back under capture")
            with resource.allocate(NBYTES, stream=stream) as buf:
                buf.fill(9, stream=stream)
                expect_bytes(env.read(buf), b"\x09" * NBYTES, "memory of the stream after its capture")
        expect_bytes(env.read(keeper), NEW, "memory from before the captures")


_CALLS = ("Malloc", "HostMalloc", "MallocManaged", "MallocFromPoolAsync", "EventCreateWithFlags", "EventRecord")


@check("POOL-30", backends=("host",))
def a_miss_makes_no_call(env: Env, resource: Any) -> None:
    stream = env.stream()
    resource.allocate(NBYTES, stream=stream).close()
    with captured(stream, during="a miss of a pool"):
        for call in _CALLS:
            env.pm.knobs.fail_call(call, 1, 999)
            try:
                with refused(ValueError, saying="captur"):
                    resource.allocate(64 * MIB, stream=stream)
            finally:
                env.pm.knobs.reset()
    with resource.allocate(NBYTES, stream=stream) as buf:
        buf.fill(3, stream=stream)
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "memory after the capture")


FORKED = """
    import os, portamem, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    device = pm.Device(0)
    stream = pm.Stream(device)
    from portamem.conformance.kit.kinds import KINDS
    pool = KINDS[sys.argv[1]].make(pm, device)
    adaptor = pm.StatisticsAdaptor(pool)
    kept, spare = adaptor.allocate(4096, stream=stream), pool.allocate(4096, stream=stream)
    pool.allocate(4096, stream=stream).close()
    kept.fill(1, stream=stream)
    stream.synchronize()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for call in ("pool.allocate(4096, stream=stream)", "adaptor.allocate(4096, stream=stream)", "spare.close()",
                     "pool.trim()", "pool.deallocate(kept.handle, 4096, stream=stream)",
                     "pm.PoolMemoryResource(pool.upstream)"):
            try:
                eval(call)
                print("went through:", call)
            except portamem.Error as error:
                if error.name != "Forked":
                    print("other words of", call, "are", error)
            except BaseException as error:
                print("another exception of", call, "is", repr(error))
        sys.stdout.flush()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    out = bytearray(4096)
    kept.copy_to(out)
    assert set(out) == {1}, set(out)
    spare.close()
    with pool.allocate(4096, stream=stream) as again:
        again.fill(2, stream=stream)
        again.copy_to(out)
    assert set(out) == {2}, set(out)
    kept.close()
    pool.trim()
    print("parent", os.waitstatus_to_exitcode(status), pool.stats().reserved)
"""


@check("POOL-31")
def after_a_fork(env: Env, resource: Any) -> None:
    said = env.output(FORKED, env.kind_of(resource).name).splitlines()
    expect_equal(said, ["parent 0 0"], "what the child and then the parent said")
