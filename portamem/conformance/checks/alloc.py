# SPDX-License-Identifier: MIT
"""Shows the clauses of allocation, alignment and zero sizes."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import overlapping, pattern

SIZES = (1, 7, 256, 4096, 65_537, 1 << 20)


@check("ALLOC-01")
def every_byte_is_there(env: Env, resource: Any) -> None:
    for seed, nbytes in enumerate(SIZES):
        with env.allocate(resource, nbytes) as buf:
            expect_equal((buf.nbytes, len(buf)), (nbytes, nbytes), "nbytes and len")
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
        expect_equal((empty.nbytes, empty.handle, len(empty)), (0, 0, 0), "size, address and len")
        expect_equal((resource.live_buffers, resource.live_bytes), (2, 0), "live buffers and bytes")
        empty.fill(1)
        empty.copy_from(another)
        empty.copy_from(b"")
        env.pm.copy_2d(empty, another, width=0, height=3)
        env.pm.copy_2d(empty, another, width=3, height=0, dst_pitch=0)
        env.pm.copy_3d(empty, another, width=3, height=3, depth=0)
        expect_equal(env.read(empty), b"", "its contents")
        with empty[0:0] as part, empty.view("float64", (0, 4)) as view:
            expect_equal((part.nbytes, view.nbytes, view.shape), (0, 0, (0, 4)), "sizes of its parts")
        stream = env.stream()
        empty.fill(1, stream=stream).synchronize()
        empty.copy_from(another, stream=stream).synchronize()
        with env.allocate(resource, 16) as some, some[16:] as end:
            some.fill(5)
            end.copy_from(empty)
            expect_bytes(env.read(some), b"\x05" * 16, "a buffer to whose end nothing was copied")
    expect_equal(resource.live_buffers, 0, "live buffers after both were closed")


@check("ALLOC-04")
def addresses_are_multiples_of_256(env: Env, resource: Any) -> None:
    buffers = [env.allocate(resource, nbytes) for nbytes in (1, 3, 100, 257, 4097, 100_001) for _ in range(3)]
    for buf in buffers:
        expect_equal(buf.handle % 256, 0, f"the address of {buf.nbytes} bytes modulo 256")
        env.write(buf, pattern(buf.nbytes))
        expect_bytes(env.read(buf), pattern(buf.nbytes), f"{buf.nbytes} bytes at a multiple of 256")
        buf.close()


@check("ALLOC-05")
def system_memory_starts_on_a_page(env: Env, resource: Any) -> None:
    buffers = [env.allocate(resource, nbytes) for nbytes in (1, 100, 4096, 4097, 1 << 20)]
    for buf in buffers:
        expect_equal(buf.handle % 4096, 0, f"the address of {buf.nbytes} bytes modulo 4096")
        buf.fill(buf.nbytes % 251)
    for buf in buffers:
        expect_bytes(env.read(buf), bytes([buf.nbytes % 251]) * buf.nbytes, f"{buf.nbytes} bytes")
        buf.close()


@check("ALLOC-06")
def neighbours_stay_as_they_are(env: Env, resource: Any) -> None:
    """The check writes every other one of many small buffers of odd sizes over and over: the rest are its redzones."""
    sizes = [1 + 37 * number for number in range(24)]
    buffers = [env.allocate(resource, nbytes) for nbytes in sizes]
    for seed, buf in enumerate(buffers):
        env.write(buf, pattern(buf.nbytes, seed))
    stream = env.stream()
    for buf in buffers[::2]:
        buf.fill(0xFF)
        buf.fill(0xEE, stream=stream).synchronize()
        env.write(buf, b"\xdd" * buf.nbytes)
        buf.copy_from(b"\xcc" * buf.nbytes, stream=stream).synchronize()
    for seed, buf in enumerate(buffers):
        wanted = pattern(buf.nbytes, seed) if seed % 2 else b"\xcc" * buf.nbytes
        expect_bytes(env.read(buf), wanted, f"the {'untouched' if seed % 2 else 'written'} buffer {seed}")
        buf.close()


@check("ALLOC-07")
def what_is_out_is_counted(env: Env, resource: Any) -> None:
    where = "host" if resource.device_id == -1 else resource.device
    before = env.pm.held(where)
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes of a new resource")
    first, second = env.allocate(resource, 1000), env.allocate(resource, 24)
    for out, expected in ((None, (2, 1024)), (first, (1, 24)), (second, (0, 0))):
        if out is not None:
            out.close()
        expect_equal((resource.live_buffers, resource.live_bytes), expected, "live buffers and bytes")
        if not env.kind_of(resource).keeps:
            expect_equal(env.pm.held(where) - before, expected[1], f"bytes held on {where}")
        if not isinstance(where, str):
            expect_equal(where.memory_info().held, env.pm.held(where), "memory_info().held")


@check("ALLOC-08")
def a_buffer_says_what_it_is(env: Env, resource: Any) -> None:
    kind = env.kind_of(resource)
    expect_equal(resource.is_stream_ordered, kind.stream_ordered, "is_stream_ordered")
    expect_equal(resource.device, env.device, "the device of the resource")
    expect_equal(resource.device_id, -1 if kind.host_memory else env.ordinal, "the device_id of the resource")
    stream = env.stream()
    with resource.allocate(4096, stream=stream) as buf:
        expect(buf.resource is resource, "the buffer names another resource")
        expect_equal(buf.stream, stream, "the stream of the buffer")
        expect_equal(buf.backend, env.pm.backend, "backend")
        expect_equal(resource.backend, env.pm.backend, "backend of the resource")
        for name in ("kind", "device", "device_id", "is_host_accessible", "is_device_accessible"):
            expect_equal(getattr(buf, name), getattr(resource, name), name)
        expect_equal((buf.is_closed, buf.exports, buf.owner), (False, 0, None), "is_closed, exports and owner")
        expect("4096" in repr(buf) and resource.kind in repr(buf), f"repr says neither size nor kind: {buf!r}")
    expect(buf.is_closed and "closed" in repr(buf), f"a closed buffer does not say so: {buf!r}")
    expect(resource.kind in repr(resource), f"repr does not say the kind: {resource!r}")


@check("ALLOC-14")
def a_stream_ordered_resource_is_told_the_stream(env: Env, resource: Any) -> None:
    with refused(TypeError, saying="stream"):
        resource.allocate(16)
    with refused(TypeError, saying="stream"):
        resource.allocate(16, stream=None)
    expect_equal(resource.live_buffers, 0, "live buffers after refusals")
    stream = env.stream()
    with resource.allocate(4096, stream=stream) as buf:
        expect_equal(buf.stream, stream, "the stream of the buffer")
        buf.fill(3, stream=stream)
        stream.synchronize()
        expect_bytes(env.read(buf), b"\x03" * 4096, "memory used on its stream")


@check("ALLOC-14")
def a_stream_of_another_device_is_refused(env: Env, resource: Any) -> None:
    stream = env.stream(env.other_device)
    with refused(ValueError, saying=f"device {stream.device.ordinal}"):
        resource.allocate(16, stream=stream)
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes after the refusal")


@check("ALLOC-15")
def memory_is_there_for_every_stream(env: Env, resource: Any) -> None:
    streams = [env.stream(), env.stream(), env.device.default_stream]
    with resource.allocate(4096) as plain, resource.allocate(4096, stream=streams[0]) as named:
        expect_equal(plain.stream, env.device.default_stream, "the stream where none was named")
        for buf in (plain, named):
            for value, stream in enumerate(streams):
                buf.fill(value, stream=stream).synchronize()
                expect_bytes(env.read(buf), bytes([value]) * 4096, f"memory used on {stream!r}")


@check("ALLOC-16")
def a_closed_resource_gives_nothing(env: Env, resource: Any) -> None:
    expect(not resource.is_closed, "a new resource is closed")
    resource.close()
    resource.close()
    expect(resource.is_closed and "closed" in repr(resource), f"a closed resource does not say so: {resource!r}")
    with refused(ValueError, saying="closed"):
        env.allocate(resource, 16)
    with refused(ValueError, saying="closed"):
        env.allocate(resource, 0)
    with refused(ValueError, saying="closed"), env.pm.using(resource):
        pass
    expect_equal((resource.live_buffers, resource.live_bytes), (0, 0), "live buffers and bytes")
