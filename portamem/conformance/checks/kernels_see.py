# SPDX-License-Identifier: MIT
"""Shows by kernels that the contents of memory are what portamem says: what it writes they see, and the other way."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect_bytes, expect_equal
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.witness.pattern import pattern as kernel_pattern

NBYTES = 100_003


def address_of(env: Env, buf: Any) -> int:
    """The address at which kernels find memory; Unsupported where they cannot reach it."""
    if not buf.is_device_accessible:
        raise Unsupported(f"pageable_memory_access is false for {env.device!r}")
    address: int = env.pm.pointer_info(buf).device_pointer
    return address


@check("ALLOC-01")
def every_byte_is_there_for_kernels(env: Env, resource: Any, kernels: Any) -> None:
    stream = env.stream()
    for seed, nbytes in enumerate((1, 255, 65_537, NBYTES)):
        with env.allocate(resource, nbytes, stream) as buf, kernels.counter() as wrong:
            address = address_of(env, buf)
            kernels.fill(stream.handle, address, nbytes, seed)
            buf.record_stream(stream)
            expect_bytes(env.read(buf), kernel_pattern(nbytes, seed), f"{nbytes} bytes that a kernel wrote")
            env.write(buf, kernel_pattern(nbytes, seed + 100))
            kernels.verify(stream.handle, address, nbytes, seed + 100, wrong)
            stream.synchronize()
            expect_equal(wrong.read(), 0, f"bytes of {nbytes} that a kernel sees otherwise than they were written")


@check("ALLOC-06")
def kernels_leave_neighbours_alone(env: Env, resource: Any, kernels: Any) -> None:
    stream = env.stream()
    buffers = [env.allocate(resource, 1 + 97 * number, stream) for number in range(12)]
    for buf in buffers:
        buf.fill(0x5A, stream=stream)
    stream.synchronize()
    for seed, buf in enumerate(buffers):
        if seed % 2:
            kernels.fill(stream.handle, address_of(env, buf), buf.nbytes, seed)
    stream.synchronize()
    for seed, buf in enumerate(buffers):
        wanted = kernel_pattern(buf.nbytes, seed) if seed % 2 else b"\x5a" * buf.nbytes
        expect_bytes(env.read(buf), wanted, f"the {'written' if seed % 2 else 'untouched'} buffer {seed}")
        buf.close()


@check("COPY-04")
def kernels_see_what_copies_and_fills_wrote(env: Env, resource: Any, kernels: Any) -> None:
    """All work is on one stream, without waiting in between: counters and memory are there beforehand."""
    stream, source = env.stream(), kernel_pattern(NBYTES, 7)
    pinned = env.resource("pinned" if resource.device_id >= 0 else "device")
    with (
        pinned.allocate(NBYTES) as staging,
        env.allocate(resource, NBYTES, stream) as buf,
        kernels.counter() as copied,
        kernels.counter() as filled,
        kernels.counter() as beside,
    ):
        address = address_of(env, buf)
        env.write(staging, source)
        buf.copy_from(staging, stream=stream)
        kernels.verify(stream.handle, address, NBYTES, 7, copied)
        with buf[1001:50_001] as part:
            part.fill(0xC3, stream=stream)
        kernels.verify_value(stream.handle, address + 1001, 49_000, 0xC3, filled)
        kernels.verify(stream.handle, address, 1001, 7, beside)
        stream.synchronize()
        expect_equal(copied.read(), 0, "bytes that a kernel sees otherwise than they were copied")
        expect_equal(filled.read(), 0, "bytes that a kernel sees otherwise than they were filled")
        expect_equal(beside.read(), 0, "bytes before the fill that a kernel sees changed")
        expect_bytes(env.read(buf[50_001:]), source[50_001:], "bytes behind the fill")


@check("COPY-08")
def copies_run_behind_kernels(env: Env, resource: Any, kernels: Any) -> None:
    stream = env.stream()
    out = env.resource("device" if resource.device_id == -1 else "pinned")
    with out.allocate(NBYTES) as target, env.allocate(resource, NBYTES, stream) as buf:
        address = address_of(env, buf)
        kernels.fill(stream.handle, address, NBYTES, 0)  # loaded now: loading may wait for the device
        stream.synchronize()
        held = env.latch(stream)
        kernels.fill(stream.handle, address, NBYTES, 3)
        done = target.copy_from(buf, stream=stream)
        buf.fill(0xFF, stream=stream)
        held.release()
        done.synchronize()
        expect_bytes(env.read(target), kernel_pattern(NBYTES, 3), "what was copied behind a kernel and before a fill")
        stream.synchronize()


@check("OWN-01")
def kernels_see_parts_of_the_same_memory(env: Env, resource: Any, kernels: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES, stream) as buf:
        buf.fill(1, stream=stream)
        with buf[501:1501] as part:
            kernels.fill(stream.handle, address_of(env, part), part.nbytes, 9)
            part.record_stream(stream)
        wanted = b"\x01" * 501 + kernel_pattern(1000, 9) + b"\x01" * (NBYTES - 1501)
        expect_bytes(env.read(buf), wanted, "a buffer into a part of which a kernel wrote")
