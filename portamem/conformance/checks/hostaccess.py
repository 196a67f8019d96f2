# SPDX-License-Identifier: MIT
"""Shows the clauses of access by the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, pattern
from portamem.conformance.kit.outcome import Unsupported

NBYTES = 64 * KIB
READERS: tuple[Callable[[Any], Any], ...] = (memoryview, bytes, bytearray, lambda buf: np.frombuffer(buf, np.uint8))


def _need_concurrent_access(env: Env, resource: Any) -> None:
    if resource.kind == "managed":
        capabilities = env.device.capabilities
        env.need(capabilities.concurrent_managed_access, "concurrent_managed_access")


@check("HOSTACCESS-01")
def the_host_reaches_what_it_is_said_to(env: Env, resource: Any) -> None:
    data = pattern(NBYTES)
    with env.allocate(resource, NBYTES) as buf, buf.view("float32") as view:
        env.write(buf, data)
        expect_equal(buf.is_host_accessible, resource.is_host_accessible, "is_host_accessible of the buffer")
        for reader in READERS:
            if buf.is_host_accessible:
                expect_bytes(bytes(reader(buf)), data, "what Python reads in place")
            else:
                with refused(BufferError, saying="host can reach") as refusal:
                    reader(buf)
                expect("copy" in str(refusal.error), f"it is not told what to do: {refusal.error}")
        if not buf.is_host_accessible:
            with refused(BufferError, saying="host can reach"):
                memoryview(view)
            with refused(TypeError, BufferError):
                np.asarray(view)
            with refused(TypeError, BufferError):
                np.asarray(buf)
        else:
            expect_equal(memoryview(view).nbytes, NBYTES, "nbytes of a View's memory")
            with memoryview(buf) as seen:
                seen[NBYTES - 4 :] = b"abcd"
            expect_bytes(env.read(buf[NBYTES - 4 :]), b"abcd", "what Python wrote in place")
        expect_equal(buf.exports, 1, "exports afterwards: the View")


@check("HOSTACCESS-02")
def the_host_reaches_its_own_memory(env: Env, resource: Any) -> None:
    expect(resource.is_host_accessible, f"the host does not reach {resource.kind} memory")
    with env.allocate(resource, NBYTES) as buf, memoryview(buf) as seen:
        seen[:] = pattern(NBYTES)
        expect_bytes(env.read(buf), pattern(NBYTES), "memory that the host wrote")


@check("HOSTACCESS-03")
def the_host_reaches_device_memory_where_it_can(env: Env, resource: Any) -> None:
    wanted = resource.kind == "device" and bool(env.device.capabilities.direct_host_access)
    expect_equal(resource.is_host_accessible, wanted, f"is_host_accessible of {resource.kind} memory")
    expect(resource.is_device_accessible, f"the device does not reach {resource.kind} memory")
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        if wanted:
            expect_bytes(bytes(memoryview(buf)), pattern(NBYTES), "device memory that the host reads")
        else:
            with refused(BufferError, saying=resource.kind):
                memoryview(buf)
        expect_bytes(env.read(buf), pattern(NBYTES), "the memory through a copy")


@check("HOSTACCESS-04")
def devices_reach_host_memory_where_they_can(env: Env, resource: Any) -> None:
    pageable = bool(env.device.capabilities.pageable_memory_access)
    wanted = pageable if resource.kind == "system" else True
    expect_equal(resource.is_device_accessible, wanted, f"is_device_accessible of {resource.kind} memory")
    with env.allocate(resource, NBYTES) as buf:
        info = env.pm.pointer_info(buf)
        expect_equal(info.device_pointer is not None, wanted, "whether the runtime has a device address")
        buf.fill(3, stream=env.stream()).synchronize()
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "memory filled on a stream, whoever does that")


@check("HOSTACCESS-04")
def a_kernel_reaches_what_devices_are_said_to(env: Env, resource: Any, kernels: Any) -> None:
    if not resource.is_device_accessible:
        raise Unsupported(f"pageable_memory_access is false for {env.device!r}")
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        kernels.fill(stream.handle, env.pm.pointer_info(buf).device_pointer, NBYTES, 5)
        stream.synchronize()
        with kernels.verify(stream.handle, env.pm.pointer_info(buf).device_pointer, NBYTES, 5) as wrong:
            expect_equal(wrong.read(), 0, "wrong bytes, as a kernel counts them")


@check("HOSTACCESS-05")
def taking_a_buffer_waits_once(env: Env, resource: Any) -> None:
    _need_concurrent_access(env, resource)
    if not resource.is_device_accessible:
        raise Unsupported(f"pageable_memory_access is false: no work on {resource.kind} memory is left pending")
    stream = env.stream()
    with env.allocate(resource, 4096) as buf, env.resource("device").allocate(4096) as source:
        source.fill(2)
        buf.fill(0)
        with memoryview(buf) as seen:
            held = env.latch(stream)
            if resource.kind == "system":  # nothing that a vendor promises to leave pending
                held.release()
            buf.fill(1, stream=stream)
            if resource.kind != "system":
                expect_bytes(bytes(seen), bytes(4096), "memory whose later work a latch holds")
                held.release_soon()
            with memoryview(buf) as later:
                expect_bytes(bytes(later), b"\x01" * 4096, "memory that was taken after work was declared")
                expect(stream.query(), "the stream is not done")


@check("HOSTACCESS-05")
def every_reader_waits(env: Env, resource: Any) -> None:
    """The work is declared and waits behind a latch that opens by itself soon."""
    stream = env.stream()
    for value, reader in enumerate(READERS, start=1):
        with env.allocate(resource, 4096) as buf:
            buf.fill(0)
            held = env.latch(stream)
            held.release_soon()  # a fill of pageable memory may wait itself
            buf.fill(value, stream=stream)
            expect_bytes(bytes(reader(buf)), bytes([value]) * 4096, "what a reader sees of declared work")


@check("HOSTACCESS-06")
def the_array_interface_waits(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, 4096) as buf, buf.view() as view:
        takers: tuple[Callable[[], object], ...] = (lambda: view.__array_interface__, lambda: np.asarray(view))
        for value, take in enumerate(takers, start=1):
            held = env.latch(stream)
            held.release_soon()
            done = buf.fill(value, stream=stream)
            take()
            expect(done.query(), "the work that was declared is not done")
            expect_bytes(env.read(buf), bytes([value]) * 4096, "the memory")


@check("HOSTACCESS-07")
def what_is_pending_is_not_handed_out(env: Env, resource: Any) -> None:
    stream, data = env.stream(), pattern(NBYTES)
    with env.resource("device").allocate(NBYTES) as target:
        for _ in range(3):
            source = env.allocate(resource, NBYTES)
            env.write(source, data)
            target.fill(0)
            held = env.latch(stream)
            held.release_soon()
            done = target.copy_from(source, stream=stream)
            source.close()
            expect(done.query() or env.kind_of(resource).keeps, "close did not wait for the copy")
            with env.allocate(resource, NBYTES) as intruder, memoryview(intruder) as seen:
                seen[:] = b"\xff" * NBYTES
            expect_bytes(env.read(target), data, "the target of a copy whose source was closed and handed out again")


@check("HOSTACCESS-08")
def work_sees_what_the_host_wrote(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf, env.resource("device").allocate(NBYTES) as device:
        for seed in range(4):
            with memoryview(buf) as seen:
                seen[:] = pattern(NBYTES, seed)
            device.copy_from(buf, stream=stream)
            buf.fill(0, stream=stream)
            buf.copy_from(device, stream=stream)
            stream.synchronize()
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), pattern(NBYTES, seed), "what went to the device and came back")


@check("HOSTACCESS-08")
def a_kernel_sees_what_the_host_wrote(env: Env, resource: Any, kernels: Any) -> None:
    if not resource.is_device_accessible:
        raise Unsupported(f"pageable_memory_access is false for {env.device!r}")
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        address = env.pm.pointer_info(buf).device_pointer
        with memoryview(buf) as seen:
            seen[:] = b"\x2a" * NBYTES
        with kernels.verify_value(stream.handle, address, NBYTES, 0x2A) as wrong:
            expect_equal(wrong.read(), 0, "bytes that a kernel sees otherwise than the host wrote them")


@check("HOSTACCESS-09")
def both_sides_see_device_memory(env: Env, resource: Any) -> None:
    env.need(env.device.capabilities.direct_host_access, "direct_host_access")
    stream = env.stream()
    with resource.allocate(NBYTES) as buf, resource.allocate(NBYTES) as other:
        with memoryview(buf) as seen:
            seen[:] = pattern(NBYTES)
        other.copy_from(buf, stream=stream)
        with memoryview(other) as seen:
            expect_bytes(
                bytes(seen), pattern(NBYTES), "what the host wrote, copied by the device, and read by the host"
            )
