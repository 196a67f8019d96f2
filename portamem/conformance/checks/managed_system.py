# SPDX-License-Identifier: MIT
"""Shows the clauses of system memory: ordinary memory, and the devices that reach it."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal
from portamem.conformance.kit.memory import KIB, overlapping, pattern
from portamem.conformance.witness.base import Witness

NBYTES = 64 * KIB


@check("MANAGED-17")
def it_is_ordinary(env: Env, resource: Any) -> None:
    buffers = [resource.allocate(nbytes) for nbytes in (1, 4095, 4096, 4097, NBYTES)]
    pages = [buf.handle // mmap.PAGESIZE for buf in buffers]
    expect_equal(len(set(pages)), len(pages), "the number of first pages")
    expect_equal(overlapping(buffers), [], "the list of overlapping buffers")
    for seed, buf in enumerate(buffers):
        expect_equal(buf.handle % 4096, 0, "the address's offset in its page")
        expect_equal((buf.device_id, buf.is_host_accessible), (-1, True), "device_id, is_host_accessible")
        expect_equal(env.pm.pointer_info(buf).kind, "unregistered", "its kind")
        with memoryview(buf) as seen:
            seen[:] = pattern(buf.nbytes, seed)
    for device in env.pm.devices():
        for seed, buf in enumerate(buffers):
            with env.pm.DeviceMemoryResource(device) as there, there.allocate(buf.nbytes) as far:
                far.copy_from(buf)
                buf.fill(0)
                expect_bytes(ctypes.string_at(buf.handle, buf.nbytes), bytes(buf.nbytes), "it after a fill with 0")
                far.copy_to(buf)
                expect_bytes(env.read(buf), pattern(buf.nbytes, seed), f"it after the way to {device!r} and back")
    for buf in buffers:
        buf.close()


@check("MANAGED-18")
def reach_is_a_capability(env: Env) -> None:
    reached = bool(env.device.capabilities.pageable_memory_access)
    resource = env.resource("system")
    expect_equal(resource.is_device_accessible, reached, "is_device_accessible of system memory")
    memory = mmap.mmap(-1, NBYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with env.allocate(resource, NBYTES) as buf:
        for where, what in ((buf.handle, "system memory"), (address, "other memory of the process")):
            found = env.pm.pointer_info(where)
            expect_equal(found.kind, "unregistered", f"the kind of {what}")
            expect_equal(found.device_pointer, where if reached else None, f"the device's address of {what}")
            expect_equal(found.host_pointer, where, f"the host's address of {what}")
        env.need(reached, "pageable_memory_access")
        stream = env.stream()
        buf.fill(7, stream=stream)
        stream.synchronize()
        expect_bytes(ctypes.string_at(buf.handle, NBYTES), b"\x07" * NBYTES, "what the device filled in place")


@check("MANAGED-18")
def reach_as_kernels_see_it(env: Env, kernels: Witness) -> None:
    from portamem.conformance.witness import pattern as kernels_pattern

    env.need(env.device.capabilities.pageable_memory_access, "pageable_memory_access")
    stream = env.stream()
    with env.allocate(env.resource("system"), NBYTES) as buf:
        with memoryview(buf) as seen:
            seen[:] = kernels_pattern(NBYTES, 1)
        wrong = kernels.verify(stream.handle, buf.handle, NBYTES, 1).read()
        expect_equal(wrong, 0, "the number of bytes that a kernel saw otherwise than the host wrote them")
        kernels.fill(stream.handle, buf.handle, NBYTES, 2)
        stream.synchronize()
        expect_bytes(ctypes.string_at(buf.handle, NBYTES), kernels_pattern(NBYTES, 2), "a kernel's writes in place")


@check("MANAGED-19")
def reach_follows_the_address(env: Env) -> None:
    env.need(env.device.capabilities.pageable_memory_access, "pageable_memory_access")
    for seed in range(8):
        memory = mmap.mmap(-1, NBYTES)
        memory[:] = pattern(NBYTES, seed)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        seen = env.pm.Buffer.from_handle(address, NBYTES, owner=memory, device=env.device)
        with seen, env.allocate(env.resource("device"), NBYTES) as far:
            expect(seen.is_device_accessible, "memory of the process is said to be out of the device's reach")
            far.copy_from(seen)
            expect_bytes(env.read(far), pattern(NBYTES, seed), "what the device read at an address that is used again")
            seen.fill(seed)
            expect_bytes(bytes(memory), bytes([seed]) * NBYTES, "what the device filled in place")


@check("MANAGED-21")
def it_is_prefetched_and_advised(env: Env, resource: Any) -> None:
    env.need(env.device.capabilities.pageable_memory_access, "pageable_memory_access")
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        for location in (env.device, env.ordinal, "host"):
            buf.prefetch(location)
            buf.prefetch(location, stream=stream).synchronize()
            expect_bytes(env.read(buf), pattern(NBYTES), f"it after a prefetch to {location}")
        for advice in ("read_mostly", "preferred_location", "accessed_by"):
            for which in (advice, f"unset_{advice}"):
                buf.advise(which, env.device)
                expect_bytes(env.read(buf), pattern(NBYTES), f"it after {which}")


@check("MANAGED-21", backends=("host",))
def it_is_told_what_was_asked(env: Env, resource: Any) -> None:
    env.need(env.device.capabilities.pageable_memory_access, "pageable_memory_access")
    half = NBYTES // 2
    with env.allocate(resource, NBYTES) as buf, buf[:half] as first, buf[half:] as second:
        first.prefetch(env.device)
        second.prefetch("host")
        expect_equal(first.range_attribute("last_prefetch_location"), env.ordinal, "where the first half was sent")
        expect_equal(second.range_attribute("last_prefetch_location"), "host", "where the second half was sent")
        expect_equal(buf.range_attribute("last_prefetch_location"), None, "where both halves were sent")
        first.advise("read_mostly")
        expect_equal(first.range_attribute("read_mostly"), True, "read_mostly of the half that was advised")
        expect_equal(second.range_attribute("read_mostly"), False, "read_mostly of the other half")
        first.advise("unset_read_mostly")
        for name, location, told in (
            ("preferred_location", env.device, env.ordinal),
            ("accessed_by", "host", ["host"]),
        ):
            first.advise(name, location)
            expect_equal(first.range_attribute(name), told, f"{name} once advised")
            first.advise(f"unset_{name}", location)
            none: list[str] | None = None if name == "preferred_location" else []
            expect_equal(first.range_attribute(name), none, f"{name} once undone")
    memory = bytearray(NBYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with env.pm.Buffer.from_handle(address, NBYTES, owner=memory, device=env.device) as seen:
        seen.prefetch(env.device)
        expect_equal(seen.range_attribute("last_prefetch_location"), env.ordinal, "where other memory was sent")
