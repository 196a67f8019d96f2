# SPDX-License-Identifier: MIT
"""Shows the clauses of Buffers that are given another size."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import eventually, expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.errors import Error

NBYTES = 100 * KIB


@check("OWN-39")
def the_first_bytes_keep_their_values(env: Env, resource: Any) -> None:
    buf, size = env.allocate(resource, 1000), 1000
    env.write(buf, pattern(size, 1))
    for nbytes in (1010, NBYTES, MIB + 1, MIB + 1, 2 * MIB, 50 * KIB, 300):
        buf.reallocate(nbytes)
        expect_equal((buf.nbytes, len(buf)), (nbytes, nbytes), "the size")
        expect_equal((resource.live_buffers, resource.live_bytes), (1, nbytes), "what is out of the resource")
        kept = min(size, nbytes)
        expect_bytes(env.read(buf)[:kept], pattern(kept, 1), f"what was there before {nbytes} bytes")
        env.write(buf, pattern(nbytes, 1))
        size = nbytes
    with buf.view("uint8", offset=100) as part:
        expect_bytes(env.read(part), pattern(300, 1)[100:], "a view of it")
    buf.close()
    expect(eventually(lambda: resource.live_buffers == 0), "the memory is not given back")


@check("OWN-39")
def from_no_bytes_and_to_none(env: Env, resource: Any) -> None:
    with env.allocate(resource, 0) as buf:
        buf.reallocate(NBYTES)
        env.write(buf, pattern(NBYTES))
        buf.reallocate(0)
        expect_equal((buf.nbytes, buf.handle, resource.live_bytes), (0, 0, 0), "a Buffer of no bytes")
        buf.reallocate(10)
        env.write(buf, pattern(10))
        expect_bytes(env.read(buf), pattern(10), "the memory")


@check("OWN-39")
def behind_work_that_was_declared(env: Env, resource: Any) -> None:
    writer = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        with env.latch(writer) as held:
            if not resource.is_stream_ordered or resource.kind != "device":
                held.release_soon()  # such memory goes back when the work has run, or the runtime copies it on the CPU
            buf.fill(0x5A, stream=writer)
            buf.reallocate(MIB)
        expect_bytes(env.read(buf)[:NBYTES], b"\x5a" * NBYTES, "what another stream's work had still to write")


@check("OWN-39")
def on_a_stream_that_is_named(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        buf.reallocate(MIB, stream=stream)
        expect_equal(buf.stream, stream, "the stream of new memory")
        stream.synchronize()
        expect_bytes(env.read(buf)[:NBYTES], pattern(NBYTES), "the memory")
        other = env.stream()
        buf.reallocate(MIB, stream=other)  # the size that it has
        expect_equal(buf.stream, other, "the stream of memory that has its size")
        expect_bytes(env.read(buf)[:NBYTES], pattern(NBYTES), "the memory, which has its size")


@check("OWN-40")
def what_is_in_use_is_not_reallocated(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        address = buf.handle
        with buf[10:20] as part:
            with refused(BufferError, saying="export"):
                buf.reallocate(2 * NBYTES)
            with refused(ValueError, saying="reallocate the buffer itself"):
                part.reallocate(5)
        with buf.view("uint8"), refused(BufferError, saying="export"):
            buf.reallocate(2 * NBYTES)
        foreign = env.pm.Buffer.from_handle(address, 10, device=env.device)
        with foreign, refused(ValueError, saying="its owner alone"):
            foreign.reallocate(5)
        expect_equal((buf.nbytes, buf.handle, resource.live_buffers), (NBYTES, address, 1), "the buffer")
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory")
    with refused(ValueError, saying="closed"):
        buf.reallocate(5)


@check("OWN-40")
def what_cannot_be_had_changes_nothing(env: Env, resource: Any) -> None:
    stream = env.stream()
    stream.close()
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        address = buf.handle
        with refused(MemoryError, Error, ValueError):
            buf.reallocate(1 << 62)
        with refused(ValueError, saying="power of two"):
            buf.reallocate(10, alignment=3)
        with refused(ValueError, saying="closed"):
            buf.reallocate(10, stream=stream)
        with refused(ValueError):
            buf.reallocate(-1)
        expect_equal((buf.nbytes, buf.handle, resource.live_buffers), (NBYTES, address, 1), "the buffer")
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory")


@check("OWN-40")
def rows_keep_their_pitch(env: Env) -> None:
    with env.pm.DeviceMemoryResource(env.device) as resource, resource.allocate_pitched(100, 7) as rows:
        with refused(ValueError, saying="pitch"):
            rows.reallocate(10)
        expect(rows.pitch >= 100 and not rows.is_closed, "the rows have changed")
