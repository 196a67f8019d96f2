# SPDX-License-Identifier: MIT
"""Shows the clauses of managed memory."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.outcome import Unsupported
from portamem.conformance.witness.base import HOST_LOCATION, Witness
from portamem.enums import MemoryAdvice

NBYTES = 256 * KIB
NOT_SUPPORTED = 801

UNDO = {
    MemoryAdvice.READ_MOSTLY: MemoryAdvice.UNSET_READ_MOSTLY,
    MemoryAdvice.PREFERRED_LOCATION: MemoryAdvice.UNSET_PREFERRED_LOCATION,
    MemoryAdvice.ACCESSED_BY: MemoryAdvice.UNSET_ACCESSED_BY,
}


def needs_migration(env: Env) -> None:
    mode = env.device.capabilities.managed_mode
    if mode != "migrating":
        raise Unsupported(f"managed_mode is {mode!r} for {env.device!r}")


@check("MANAGED-01")
def one_address(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        with memoryview(buf) as seen:
            seen[:] = pattern(NBYTES, 1)
        expect_bytes(env.read(buf), pattern(NBYTES, 1), "what a copy read of the host's writes")
        buf.fill(0x5A)
        with memoryview(buf) as seen:
            expect_bytes(bytes(seen), b"\x5a" * NBYTES, "what the host read of the device's fill")
        info = env.pm.pointer_info(buf)
        expect_equal(info.kind, "managed", "kind")
        expect_equal((info.host_pointer, info.device_pointer), (buf.handle, buf.handle), "both addresses")


@check("MANAGED-01")
def one_address_as_kernels_see_it(env: Env, resource: Any, kernels: Witness) -> None:
    from portamem.conformance.witness import pattern as kernels_pattern

    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        expect_equal(kernels.pointer(buf.handle).kind, "managed", "the runtime's kind of memory")
        with memoryview(buf) as seen:
            seen[:] = kernels_pattern(NBYTES, 2)
        wrong = kernels.verify(stream.handle, buf.handle, NBYTES, 2).read()
        expect_equal(wrong, 0, "the number of bytes that a kernel saw otherwise than the host wrote them")
        kernels.fill(stream.handle, buf.handle, NBYTES, 3)
        stream.synchronize()
        with memoryview(buf) as seen:
            expect_bytes(bytes(seen), kernels_pattern(NBYTES, 3), "what the host read of a kernel's writes")


@check("MANAGED-02")
def reach_is_as_it_is_said(env: Env, resource: Any) -> None:
    able = env.device.capabilities
    by_host = bool(able.direct_host_access) if resource.kind in ("device", "async", "virtual") else True
    by_device = bool(able.pageable_memory_access) if resource.kind == "system" else True
    if resource.kind in ("async", "virtual"):
        by_host = resource.is_host_accessible and by_host  # such memory may stay behind what plain memory can
    expect_equal((resource.is_host_accessible, resource.is_device_accessible), (by_host, by_device), "who reaches it")
    with env.allocate(resource, 4 * KIB) as buf:
        expect_equal((buf.is_host_accessible, buf.is_device_accessible), (by_host, by_device), "who reaches a buffer")
        env.write(buf, pattern(4 * KIB))
        if by_host:
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), pattern(4 * KIB), "what the host sees in place")
        else:
            with refused(BufferError):
                memoryview(buf)
        buf.fill(9)
        expect_bytes(env.read(buf), b"\x09" * 4 * KIB, "the memory after a fill")


@check("MANAGED-03")
def a_prefetch_changes_nothing(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        for seed, location in enumerate((env.device, "host", env.device.ordinal, "cpu", -1, env.device)):
            data = pattern(NBYTES, seed)
            env.write(buf, data)
            expect_equal(buf.prefetch(location), None, "the answer of a prefetch without a stream")
            expect_bytes(env.read(buf), data, f"the memory after a prefetch to {location!r}")
            buf.prefetch(location, stream=stream).synchronize()
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), data, f"the memory after a prefetch to {location!r} on a stream")


@check("MANAGED-04")
def a_prefetch_has_its_place_in_the_stream(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        env.write(buf, pattern(NBYTES))
        held = env.latch(stream)
        buf.fill(3, stream=stream)
        done = buf.prefetch(env.device, stream=stream)
        expect(not done.query(), "the prefetch is done before what its stream was given earlier")
        held.release()
        done.synchronize()
        expect_bytes(env.read(buf), b"\x03" * NBYTES, "the memory after a fill and a prefetch")


@check("MANAGED-04")
def what_a_prefetch_is_behind_is_done_with_it(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf:
        for value, location in enumerate((env.device, "host", env.device)):
            for each in (9, value):
                buf.fill(each, stream=stream)
            buf.prefetch(location, stream=stream).synchronize()
            expect_bytes(env.read(buf), bytes([value]) * NBYTES, f"the memory once its prefetch to {location} is done")


@check("MANAGED-05")
def the_last_prefetch(env: Env) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        for location, told in ((env.device, env.ordinal), ("host", "host"), (env.ordinal, env.ordinal)):
            buf.prefetch(location)
            expect_equal(buf.range_attribute("last_prefetch_location"), told, "the last location")


@check("MANAGED-06")
def read_mostly(env: Env) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        expect_equal(buf.range_attribute("read_mostly"), False, "read_mostly of new memory")
        buf.advise(MemoryAdvice.READ_MOSTLY)
        expect_equal(buf.range_attribute("read_mostly"), True, "read_mostly once advised")
        buf.advise("unset_read_mostly")
        expect_equal(buf.range_attribute("read_mostly"), False, "read_mostly once undone")


@check("MANAGED-07")
def preferred_location(env: Env) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        expect_equal(buf.range_attribute("preferred_location"), None, "the preferred location of new memory")
        for location, told in ((env.device, env.ordinal), ("host", "host"), (env.ordinal, env.ordinal)):
            buf.advise(MemoryAdvice.PREFERRED_LOCATION, location)
            expect_equal(buf.range_attribute("preferred_location"), told, "the preferred location")
        buf.advise(MemoryAdvice.UNSET_PREFERRED_LOCATION)
        expect_equal(buf.range_attribute("preferred_location"), None, "the preferred location once undone")


@check("MANAGED-08")
def accessed_by(env: Env) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        expect_equal(buf.range_attribute("accessed_by"), [], "the devices that access new memory")
        named = [device for device in env.pm.devices() if device.capabilities.managed_mode == "migrating"]
        for device in named:
            buf.advise(MemoryAdvice.ACCESSED_BY, device)
        told = sorted(buf.range_attribute("accessed_by"))
        expect_equal(told, [device.ordinal for device in named], "the devices that were named")
        while named:
            buf.advise(MemoryAdvice.UNSET_ACCESSED_BY, named.pop(0))
            told = sorted(buf.range_attribute("accessed_by"))
            expect_equal(told, [device.ordinal for device in named], "the devices that are left")


@check("MANAGED-05")
def the_last_prefetch_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        for location, wanted in ((env.device, env.ordinal), ("host", HOST_LOCATION)):
            buf.prefetch(location)
            found = witness.range_attribute(buf.handle, NBYTES, "last_prefetch_location")
            expect_equal(found, wanted, "the runtime's last location")


@check("MANAGED-06")
def read_mostly_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        for advice, wanted in (("read_mostly", 1), ("unset_read_mostly", 0)):
            buf.advise(advice)
            found = witness.range_attribute(buf.handle, NBYTES, "read_mostly")
            expect_equal(found, wanted, f"the runtime's read_mostly after {advice}")


@check("MANAGED-07")
def preferred_location_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        for location, wanted in ((env.device, env.ordinal), ("host", HOST_LOCATION)):
            buf.advise("preferred_location", location)
            found = witness.range_attribute(buf.handle, NBYTES, "preferred_location")
            expect_equal(found, wanted, "the runtime's preferred location")
        buf.advise("unset_preferred_location")
        found = witness.range_attribute(buf.handle, NBYTES, "preferred_location")
        expect_equal(found, None, "the runtime's preferred location once undone")


@check("MANAGED-08")
def accessed_by_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    needs_migration(env)
    most = env.pm.device_count()
    with env.allocate(env.resource("managed"), NBYTES) as buf:
        named = [device for device in env.pm.devices() if device.capabilities.managed_mode == "migrating"]
        expect_equal(witness.accessed_by(buf.handle, NBYTES, most), [], "the runtime's list for new memory")
        for device in named:
            buf.advise(MemoryAdvice.ACCESSED_BY, device)
        found = sorted(witness.accessed_by(buf.handle, NBYTES, most))
        expect_equal(found, [device.ordinal for device in named], "the runtime's list of those that were named")
        for device in named:
            buf.advise(MemoryAdvice.UNSET_ACCESSED_BY, device)
        expect_equal(witness.accessed_by(buf.handle, NBYTES, most), [], "the runtime's list once all is undone")


@check("MANAGED-09")
def parts_as_the_witness_sees_them(env: Env, witness: Witness) -> None:
    needs_migration(env)

    def told(buf: Any) -> tuple[Any, ...]:
        where = buf.handle, buf.nbytes
        marks = [witness.range_attribute(*where, name) for name in ("read_mostly", "preferred_location")]
        return *marks, witness.accessed_by(*where, env.pm.device_count())

    no: tuple[Any, ...] = (0, None, [])
    yes: tuple[Any, ...] = (1, env.ordinal, [env.ordinal])
    with env.allocate(env.resource("managed"), 4 * MIB) as buf, buf[: 2 * MIB] as first, buf[2 * MIB :] as second:
        for number, (advice, undo) in enumerate(UNDO.items()):
            one = tuple(yes[each] if each == number else no[each] for each in range(len(no)))
            first.advise(advice, env.device)
            expect_equal((told(first), told(second)), (one, no), f"the runtime's word of the halves after {advice}")
            expect_equal(told(buf), no, f"the runtime's word of both after {advice} of one")
            second.advise(advice, env.device)
            expect_equal(told(buf), one, f"the runtime's word of both after {advice} of both")
            first.advise(undo, env.device)
            expect_equal((told(first), told(second)), (no, one), f"the runtime's word of the halves after {undo}")
            second.advise(undo, env.device)
        buf.prefetch("host")
        first.prefetch(env.device)
        sent = [witness.range_attribute(half.handle, half.nbytes, "last_prefetch_location") for half in (first, second)]
        expect_equal(sent, [env.ordinal, HOST_LOCATION], "the runtime's last locations of the halves")


@check("MANAGED-09")
def parts(env: Env) -> None:
    needs_migration(env)
    with env.allocate(env.resource("managed"), 4 * MIB) as buf:
        data = pattern(4 * MIB)
        env.write(buf, data)
        with buf[: 2 * MIB] as first, buf[2 * MIB :] as second:
            for name, no in (("read_mostly", False), ("preferred_location", None), ("accessed_by", [])):
                yes: Any = {"read_mostly": True, "preferred_location": env.ordinal, "accessed_by": [env.ordinal]}[name]
                first.advise(name, env.device)
                expect_equal(first.range_attribute(name), yes, f"{name} of the half that was advised")
                expect_equal(second.range_attribute(name), no, f"{name} of the other half")
                expect_equal(buf.range_attribute(name), no, f"{name} of both")
                second.advise(name, env.device)
                expect_equal(buf.range_attribute(name), yes, f"{name} of both, once the other half was advised")
                second.advise(UNDO[MemoryAdvice(name)], env.device)
                expect_equal(first.range_attribute(name), yes, f"{name} of the first half, undone for the second")
                expect_equal(second.range_attribute(name), no, f"{name} of the second half, undone")
            buf.prefetch("host")
            first.prefetch(env.device)
            expect_equal(first.range_attribute("last_prefetch_location"), env.ordinal, "where the first half was sent")
            expect_equal(second.range_attribute("last_prefetch_location"), "host", "where the second half was sent")
        expect_bytes(env.read(buf), data, "the memory after advice and prefetches of its parts")


@check("MANAGED-10")
def advice_changes_nothing(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        for seed, (advice, undo) in enumerate(UNDO.items()):
            data = pattern(NBYTES, seed)
            env.write(buf, data)
            buf.advise(advice, env.device)
            expect_bytes(env.read(buf), data, f"the memory after the advice {advice}")
            buf.fill(seed)
            buf.advise(undo, env.device)
            with memoryview(buf) as seen:
                expect_bytes(bytes(seen), bytes([seed]) * NBYTES, f"the memory after {undo}")


@check("MANAGED-22")
def preferred_within_a_block(env: Env, resource: Any) -> None:
    needs_migration(env)
    with env.allocate(resource, NBYTES) as buf:
        with buf.preferred(env.device) as same:
            expect(same is buf, "the block has another object than the buffer")
            expect_equal(buf.range_attribute("preferred_location"), env.ordinal, "within the block")
            with buf.preferred("host"):
                expect_equal(buf.range_attribute("preferred_location"), "host", "within a block in the block")
            expect_equal(buf.range_attribute("preferred_location"), env.ordinal, "after the inner block")
        expect_equal(buf.range_attribute("preferred_location"), None, "after the block")
        with refused(RuntimeError, saying="on its way"):
            _leave_by_exception(buf.preferred(env.device))
        expect_equal(buf.range_attribute("preferred_location"), None, "after an exception")
        with refused(ValueError), buf.preferred("nowhere"):
            pass
        expect_equal(buf.range_attribute("preferred_location"), None, "after a refusal")
        with buf.preferred(env.device):
            buf.close()


def _leave_by_exception(block: Any) -> None:
    with block:
        raise RuntimeError("on its way")


@check("MANAGED-23")
def recommended_memory_serves(env: Env) -> None:
    able = env.device.capabilities
    for purpose in ("kernels", "shared", "transfer", "larger"):
        found = env.pm.recommend(purpose, env.device)
        expect_equal(found.device, env.device, "the device")
        expect(len(found.why) > 20 and found.kind in repr(found) and found.why in repr(found), f"it says {found!r}")
        with found.resource() as resource, env.allocate(resource, NBYTES) as buf:
            expect_equal(resource.kind, found.kind, f"the kind of its resource ({purpose})")
            env.write(buf, pattern(NBYTES))
            expect_bytes(env.read(buf), pattern(NBYTES), f"memory for {purpose}")
            if purpose in ("shared", "transfer"):
                expect(buf.is_host_accessible, f"the host does not reach {found!r}")
            if purpose != "transfer":
                expect(buf.is_device_accessible, f"the device does not reach {found!r}")
        expect(found.kind != "managed" or able.managed_mode == "migrating", f"managed memory does not move: {found!r}")
    with refused(ValueError, saying="kernels"):
        env.pm.recommend("everything")
