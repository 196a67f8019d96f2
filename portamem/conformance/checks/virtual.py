# SPDX-License-Identifier: MIT
"""Shows the clauses of memory that is mapped to reserved addresses."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.errors import Error


@check("VIRTUAL-01")
def every_size_at_one_address(env: Env, resource: Any) -> None:
    unit, size = resource.granularity, 1000
    with resource.allocate_growable(size, 12 * unit) as buf:
        address = buf.handle
        expect_equal((buf.nbytes, buf.capacity, buf.kind), (size, 12 * unit, "virtual"), "size, capacity and kind")
        env.write(buf, pattern(size, 1))
        for nbytes in (1001, unit, unit + 1, 12 * unit, 5 * unit + 3, 2 * unit, 1):
            buf.resize(nbytes)
            expect_equal((buf.nbytes, len(buf), buf.handle), (nbytes, nbytes, address), "size and address")
            expect_equal(resource.size_of(address), nbytes, "the size by address")
            expect_equal((resource.live_buffers, resource.live_bytes), (1, nbytes), "what is out of the resource")
            kept = min(size, nbytes)
            expect_bytes(env.read(buf)[:kept], pattern(size, 1)[:kept], f"what was there before {nbytes} bytes")
            env.write(buf, pattern(nbytes, 1))
            size = nbytes
    expect_equal((resource.live_buffers, resource.live_bytes, resource.mapped), (0, 0, 0), "what is out in the end")


@check("VIRTUAL-01")
def on_a_stream_and_up_to_the_device(env: Env, resource: Any) -> None:
    stream = env.stream()
    with resource.allocate_growable("64 KiB", stream=stream) as buf:
        expect_equal(buf.stream, stream, "the stream")
        expect(buf.capacity >= env.device.memory_info().total, f"a capacity of {buf.capacity}")
        for nbytes in (3 * MIB, "5 MiB"):
            buf.resize(nbytes, stream=stream)
            buf.fill(7, stream=stream)
            expect_bytes(env.read(buf), b"\x07" * buf.nbytes, "what the stream's work has written")


@check("VIRTUAL-02")
def exports_allow_growth_alone(env: Env, resource: Any) -> None:
    unit = resource.granularity
    with resource.allocate_growable(unit, 6 * unit) as buf:
        env.write(buf, pattern(unit, 2))
        with buf.view("uint8", offset=unit - 100) as view, buf[:100] as part:
            buf.resize(5 * unit)
            expect_bytes(env.read(view), pattern(unit, 2)[-100:], "a view from before")
            expect_bytes(env.read(part), pattern(unit, 2)[:100], "a part from before")
            expect_equal((view.nbytes, part.nbytes), (100, 100), "their sizes")
            for nbytes in (5 * unit - 1, 1):
                with refused(BufferError):
                    buf.resize(nbytes)
            expect_equal(buf.nbytes, 5 * unit, "the size after refusals")
        buf.resize(100)
        expect_bytes(env.read(buf), pattern(unit, 2)[:100], "the first bytes")


@check("VIRTUAL-03")
def fewer_bytes_wait_for_declared_work(env: Env, resource: Any) -> None:
    unit, writer = resource.granularity, env.stream()
    with resource.allocate_growable(12 * unit) as buf:
        expect(buf.mapped >= 12 * unit, f"12 granules take {buf.mapped} bytes")
        with env.latch(writer) as held:
            buf.fill(0x5A, stream=writer)
            held.release_soon()
            buf.resize(unit)
        expect(unit <= buf.mapped <= 2 * unit, f"one granule takes {buf.mapped} bytes")
        expect_equal(resource.mapped, buf.mapped, "what the resource has mapped")
        expect_bytes(env.read(buf), b"\x5a" * unit, "what that work has written")


@check("VIRTUAL-04")
def sizes_that_cannot_be(env: Env, resource: Any) -> None:
    unit = resource.granularity
    for nbytes, capacity in ((0, None), (0, unit), (2 * unit, unit), (10, 0)):
        with refused(ValueError):
            resource.allocate_growable(nbytes, capacity)
    with resource.allocate_growable(unit, 4 * unit) as buf:
        env.write(buf, pattern(unit, 3))
        mapped = buf.mapped
        for wrong in (0, 4 * unit + 1, 1 << 62):
            with refused(ValueError):
                buf.resize(wrong)
        with refused(ValueError):
            buf.resize(-1)
        expect_equal((buf.nbytes, buf.mapped, resource.live_bytes), (unit, mapped, unit), "after refusals")
        expect_bytes(env.read(buf), pattern(unit, 3), "the bytes after refusals")
    with refused(ValueError, saying="closed"):
        buf.resize(unit)


@check("VIRTUAL-04")
def more_than_the_device_has(env: Env, resource: Any) -> None:
    total = env.device.memory_info().total
    with resource.allocate_growable(100 * KIB, 40 * total) as buf:
        env.write(buf, pattern(100 * KIB, 4))
        mapped = buf.mapped
        with refused(Error, saying="asked for"):
            buf.resize(33 * total)  # its first piece is more than there is, so that other programs keep what they need
        expect_equal((buf.nbytes, buf.mapped), (100 * KIB, mapped), "size and memory after the refusal")
        expect_bytes(env.read(buf), pattern(100 * KIB, 4), "the bytes after the refusal")
        buf.resize(3 * MIB)
        env.write(buf, pattern(3 * MIB, 5))
        expect_bytes(env.read(buf), pattern(3 * MIB, 5), "the memory afterwards")


@check("VIRTUAL-05")
def sleep_and_wake(env: Env, resource: Any) -> None:
    unit = resource.granularity
    with resource.allocate_growable(2 * unit + 9, 4 * unit) as buf, env.allocate(resource, 1000) as plain:
        env.write(buf, pattern(2 * unit + 9, 5))
        env.write(plain, pattern(1000, 6))
        address = buf.handle
        resource.sleep()
        expect_equal((resource.is_asleep, resource.mapped, buf.mapped), (True, 0, 0), "while it sleeps")
        expect_equal((buf.nbytes, plain.nbytes, resource.live_bytes), (2 * unit + 9, 1000, 2 * unit + 1009), "sizes")
        uses = (
            lambda: buf.handle,
            lambda: env.read(plain),
            lambda: plain.fill(1),
            lambda: buf.resize(3 * unit),
            lambda: plain.reallocate(2000),
            lambda: resource.allocate(10),
            lambda: resource.allocate_growable(10),
        )
        for use in uses:
            with refused(ValueError, saying="wake"):
                use()
        resource.sleep()
        resource.wake()
        resource.wake()
        expect_equal((resource.is_asleep, buf.handle), (False, address), "awake again")
        expect_bytes(env.read(buf), pattern(2 * unit + 9, 5), "the bytes of a growable buffer")
        expect_bytes(env.read(plain), pattern(1000, 6), "the bytes of another")
        resource.sleep(contents="drop")
        plain.close()
        resource.wake()
        expect_equal((resource.live_buffers, buf.handle, plain.is_closed), (1, address, True), "after contents went")
        env.write(buf, pattern(2 * unit + 9, 7))
        expect_bytes(env.read(buf), pattern(2 * unit + 9, 7), "the memory afterwards")
    with refused(ValueError, saying="contents"):
        resource.sleep(contents="some")


@check("VIRTUAL-05")
def under_a_pool(env: Env, resource: Any) -> None:
    with env.pm.PoolMemoryResource(resource) as pool, env.allocate(pool, 3 * MIB) as large:
        small = [env.allocate(pool, 5000) for _ in range(20)]
        for number, buf in enumerate((large, *small)):
            env.write(buf, pattern(buf.nbytes, number))
        env.allocate(pool, 12 * MIB).close()
        with env.allocate(pool, 2 * MIB) as closed:
            resource.sleep()
        expect(closed.is_closed, "a buffer that is closed while its memory sleeps is not closed")
        out = 3 * MIB + 20 * 5000
        expect(out <= resource.kept < 3 * out, f"the host keeps {resource.kept} bytes for the {out} that are out")
        with refused(ValueError, saying="wake"):
            env.read(large)
        resource.wake()
        expect_equal(resource.kept, 0, "what the host keeps of memory that is awake")
        for number, buf in enumerate((large, *small)):
            expect_bytes(env.read(buf), pattern(buf.nbytes, number), f"the bytes of buffer {number}")
            buf.close()


@check("VIRTUAL-06")
def reallocate_in_place(env: Env, resource: Any) -> None:
    with env.pm.VirtualMemoryResource(env.device, reserve=24 * MIB) as reserving:
        expect_equal((reserving.reserve, resource.reserve), (24 * MIB, 0), "what is reserved")
        buf = reserving.allocate(MIB)
        env.write(buf, pattern(MIB, 8))
        address = buf.handle
        for nbytes in (20 * MIB, MIB + 1, 24 * MIB):
            buf.reallocate(nbytes)
            expect_equal((buf.nbytes, buf.handle), (nbytes, address), f"size and address with {nbytes} bytes")
            expect_bytes(env.read(buf)[:MIB], pattern(MIB, 8), "the first bytes")
        buf.reallocate(30 * MIB)
        expect(buf.handle != address, "the address is the same, where there is no room")
        expect_bytes(env.read(buf)[:MIB], pattern(MIB, 8), "the first bytes in other memory")
        buf.close()


@check("VIRTUAL-07")
def access_of_its_own_device(env: Env, resource: Any) -> None:
    expect_equal(resource.access(env.device), "read_write", "the access of its own device")
    resource.set_access(env.device, "read_write")
    for less in ("read", "none"):
        with refused(ValueError, saying="own device"):
            resource.set_access(env.device, less)
    with refused(ValueError):
        resource.set_access(env.device, "write")
    expect_equal(resource.access(env.device), "read_write", "the access of its own device after refusals")


@check("VIRTUAL-07")
def access_of_another_device(env: Env, resource: Any) -> None:
    other, unit = env.other_device, resource.granularity
    expect_equal(resource.access(other), "none", "the access of another device")
    resource.set_access(other, "none")
    if not other.can_access_peer(env.device):
        with refused(ValueError, saying="cannot reach"):
            resource.set_access(other, "read_write")
        expect_equal(resource.access(other), "none", "the access after the refusal")
        return
    with resource.allocate_growable(unit, 4 * unit) as growing, env.allocate(resource, 5000) as plain:
        _copies(env, plain, refusal_is_right=True)
        resource.set_access(other, "read_write")
        expect_equal(resource.access(other), "read_write", "the access that was set")
        _copies(env, plain)
        growing.resize(3 * unit)
        with growing[2 * unit :] as grown:
            _copies(env, grown)
        with env.allocate(resource, 5000) as later:
            _copies(env, later)
        resource.sleep()
        expect_equal(resource.access(other), "read_write", "the access while it sleeps")
        resource.wake()
        _copies(env, plain)
        with env.pm.PoolMemoryResource(resource) as pool, env.allocate(pool, 5000) as pooled:
            _copies(env, pooled)
        resource.set_access(other, "none")
        expect_equal(resource.access(other), "none", "the access that was taken back")
        _copies(env, plain, refusal_is_right=True)


def _copies(env: Env, near: Any, *, refusal_is_right: bool = False) -> None:
    """Copies memory to the other device and back, on a stream of either; a refusal leaves the bytes as they were."""
    nbytes, other = near.nbytes, env.other_device
    with env.allocate(env.resource("device", other), nbytes) as far:
        for seed, stream in enumerate((env.stream(), env.stream(other))):
            env.write(near, pattern(nbytes, seed))
            far.fill(0)
            try:
                far.copy_from(near, stream=stream).synchronize()
            except Error as error:
                expect(refusal_is_right and "set_access" in str(error), f"a copy to the other device: {error}")
                expect_bytes(env.read(far), bytes(nbytes), "memory of the other device after the refusal")
                continue
            expect_bytes(env.read(far), pattern(nbytes, seed), "what the other device got")
            near.fill(0)
            near.copy_from(far, stream=stream).synchronize()
            expect_bytes(env.read(near), pattern(nbytes, seed), "what came back from the other device")
