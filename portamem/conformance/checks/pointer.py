# SPDX-License-Identifier: MIT
"""Shows the clauses of pointer queries."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern
from portamem.conformance.kit.threads import on_a_thread
from portamem.conformance.witness.base import Witness

NBYTES = 4096
KIND = {"device": "device", "async": "device", "pinned": "host", "managed": "managed", "system": "unregistered"}


def _kind(resource: Any) -> str:
    """The runtime's word for a resource's memory. Memory of a kind that a plugin adds is the host's or a device's."""
    return KIND.get(resource.kind) or ("host" if resource.device_id == -1 else "device")


def _said(info: Any) -> tuple[Any, ...]:
    return info.kind, info.device_id, info.base, info.nbytes, info.flags, info.ipc_capable


@check("POINTER-01")
def every_kind_is_told(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        env.device.synchronize()
        info, kind = env.pm.pointer_info(buf), _kind(resource)
        expect_equal(info.kind, kind, "kind")
        if kind == "device":
            expect_equal(info.device_id, env.ordinal, "device_id")
            reached = bool(env.device.capabilities.direct_host_access)
            expect_equal(info.host_pointer is not None, reached, "whether the host has an address for it")
        else:
            expect_equal(info.host_pointer, buf.handle, "host_pointer")
        expect(info.device_pointer is not None, "device_pointer is missing")
        if kind != "host":
            expect_equal(info.device_pointer, buf.handle, "device_pointer")
        expect(kind in repr(info), f"repr does not say the kind: {info!r}")
        env.write(buf, pattern(NBYTES))
        with env.pm.Buffer.from_handle(info.device_pointer, NBYTES, device=env.device) as same:
            expect_bytes(env.read(same), pattern(NBYTES), "the memory by its device address")


@check("POINTER-01")
def every_kind_is_told_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    with env.allocate(resource, NBYTES) as buf:
        env.device.synchronize()
        info, facts = env.pm.pointer_info(buf), witness.pointer(buf.handle)
        expect_equal(facts.kind, _kind(resource), "the runtime's kind")
        expect_equal((info.kind, info.device_id), (facts.kind, facts.device_id), "kind and device_id")
        expect_equal(info.device_pointer, facts.device_pointer, "device_pointer")
        if facts.kind == "device":
            expect_equal(facts.device_id, env.ordinal, "the runtime's device of the memory")
        else:
            expect_equal(info.host_pointer, facts.host_pointer, "host_pointer")


@check("POINTER-01")
def the_device_is_told(env: Env, resource: Any) -> None:
    kind = env.kind_of(resource)
    there = env.resource(kind.name, env.other_device)
    with env.allocate(there, NBYTES) as buf:
        buf.fill(1)
        info = env.pm.pointer_info(buf)
        expect_equal(info.kind, _kind(resource), "kind")
        if info.kind == "device":
            expect_equal(info.device_id, env.other_device.ordinal, "device_id of memory of another device")
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "the memory")


@check("POINTER-01")
def every_thread_is_told_the_same(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(1)
        env.device.synchronize()
        here, there = env.pm.pointer_info(buf), on_a_thread(lambda: env.pm.pointer_info(buf))
        expect_equal(_said(there), _said(here), "what a thread that has used no device is told")
        addresses = [(info.device_pointer, info.host_pointer) for info in (there, here)]
        expect_equal(addresses[0], addresses[1], "the addresses that such a thread is told")
        expect(here.device_pointer is not None, "device_pointer is missing")
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "the memory")


@check("POINTER-02")
def inside_an_allocation(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf, env.allocate(resource, NBYTES) as other:
        buf.fill(1)
        env.device.synchronize()
        start = env.pm.pointer_info(buf)
        for offset in (1, 1000, NBYTES - 1):
            info = env.pm.pointer_info(buf.handle + offset)
            expect_equal(_said(info), _said(start), f"what is said of the address {offset} bytes inside")
            for name in ("device_pointer", "host_pointer"):
                first = getattr(start, name)
                wanted = None if first is None else first + offset
                expect_equal(getattr(info, name), wanted, f"{name} {offset} bytes inside")
        if start.base is not None:
            expect(start.base <= buf.handle, f"the base {start.base} is behind the start {buf.handle}")
            expect(start.base + start.nbytes >= buf.handle + NBYTES, "base and nbytes do not hold all of it")
            if env.pm.backend == "host":
                whole = resource.granularity if resource.kind == "virtual" else NBYTES
                expect_equal((start.base, start.nbytes), (buf.handle, whole), "base and nbytes")
        expect_equal(env.pm.pointer_info(other).kind, start.kind, "the kind of the buffer beside it")
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "the memory")


@check("POINTER-03")
def whatever_has_an_address(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(2)
        env.device.synchronize()
        with buf[1000:2000] as part, buf.view("int16", 8, offset=1000) as view:
            wanted = env.pm.pointer_info(buf.handle + 1000)
            for what in (part, view):
                info = env.pm.pointer_info(what)
                expect_equal(_said(info), _said(wanted), f"what is said of {what!r}")
                said = (info.device_pointer, info.host_pointer)
                expect_equal(said, (wanted.device_pointer, wanted.host_pointer), f"the addresses of {what!r}")
        for closed in (part, view):
            with refused(ValueError, saying="closed"):
                env.pm.pointer_info(closed)
        expect_equal(
            _said(env.pm.pointer_info(buf)), _said(env.pm.pointer_info(buf.handle)), "a buffer and its address"
        )
        expect_bytes(env.read(buf), b"\x02" * NBYTES, "the memory")
    with refused(ValueError, saying="closed"):
        env.pm.pointer_info(buf)


@check("POINTER-04")
def what_was_given_back(env: Env, resource: Any) -> None:
    buf = env.allocate(resource, NBYTES)
    buf.fill(1)
    address = buf.handle
    expect_equal(env.pm.pointer_info(address).kind, _kind(resource), "the kind while it is out")
    buf.close()
    env.device.synchronize()
    info = env.pm.pointer_info(address)
    expect_equal((info.kind, info.device_id, info.base), ("unregistered", None, None), "what is said afterwards")


@check("POINTER-04")
def what_was_given_back_as_the_witness_sees_it(env: Env, resource: Any, witness: Witness) -> None:
    buf = env.allocate(resource, NBYTES)
    address = buf.handle
    expect_equal(witness.pointer(address).kind, _kind(resource), "the runtime's kind while it is out")
    buf.close()
    env.device.synchronize()
    expect_equal(witness.pointer(address).kind, "unregistered", "the runtime's kind afterwards")


@check("POINTER-05")
def plain_host_memory(env: Env, resource: Any) -> None:
    import ctypes

    theirs = (ctypes.c_char * NBYTES)()
    reached = bool(env.device.capabilities.pageable_memory_access)
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(1)
        for address in (ctypes.addressof(theirs), ctypes.addressof(theirs) + 100, buf.handle, buf.handle + 100):
            info = env.pm.pointer_info(address)
            expect_equal(_said(info), ("unregistered", None, None, None, 0, False), "what is said of plain host memory")
            expect_equal(info.host_pointer, address, "host_pointer")
            expect_equal(info.device_pointer, address if reached else None, "device_pointer")
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "the memory")


@check("POINTER-06")
def null(env: Env) -> None:
    info = env.pm.pointer_info(0)
    expect_equal(
        (info.kind, info.host_pointer, info.device_pointer), ("unregistered", None, None), "kind and addresses"
    )
    expect_equal((info.device_id, info.base, info.nbytes, info.flags), (None, None, None, 0), "the rest")
    with env.resource("device").allocate(0) as empty:
        expect_equal(env.pm.pointer_info(empty).kind, "unregistered", "the kind of 0 bytes")


@check("POINTER-07")
def what_is_no_address(env: Env) -> None:
    for wrong in (-1, 1 << 64, -(1 << 70)):
        with refused(ValueError):
            env.pm.pointer_info(wrong)
    for strange in (1.5, "0x10", True, None, b"a"):
        with refused(TypeError):
            env.pm.pointer_info(strange)
    with env.resource("device").allocate(16) as buf:
        expect_equal(env.pm.pointer_info(buf.handle).kind, "device", "the kind of an address")


@check("POINTER-08")
def registered_memory(env: Env) -> None:
    env.need(env.device.capabilities.host_register, "host_register")
    memory = bytearray(NBYTES)
    with env.pm.HostRegistration(memory) as registered:
        address = registered.handle
        for what in (registered, address, address + 100):
            info = env.pm.pointer_info(what)
            offset = what - address if isinstance(what, int) else 0
            expect_equal((info.kind, info.host_pointer), ("host", address + offset), f"kind and address at {offset}")
            expect(info.device_pointer is not None, "there is no device address")
        expect_equal(env.pm.pointer_info(address).device_pointer, registered.device_handle, "device_handle")
        with env.resource("device").allocate(NBYTES) as buf:
            buf.fill(7)
            env.pm.copy(registered, buf)
    expect_equal(env.pm.pointer_info(address).kind, "unregistered", "the kind afterwards")
    expect_bytes(bytes(memory), b"\x07" * NBYTES, "the memory")


@check("POINTER-08")
def registered_memory_as_the_witness_sees_it(env: Env, witness: Witness) -> None:
    env.need(env.device.capabilities.host_register, "host_register")
    with env.pm.HostRegistration(bytearray(NBYTES)) as registered:
        address = registered.handle
        facts = witness.pointer(address)
        found = facts.kind, facts.device_pointer
        expect_equal(found, ("host", registered.device_handle), "the runtime's kind and device address")
        expect_equal(witness.pointer(address + 100).kind, "host", "the runtime's kind further in")
    expect_equal(witness.pointer(address).kind, "unregistered", "the runtime's kind afterwards")


@check("POINTER-09")
def the_same_as_the_witness_sees_it(env: Env, resource: Any, witness: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        env.device.synchronize()
        for address in (buf.handle, buf.handle + 1, buf.handle + NBYTES - 1):
            info, facts = env.pm.pointer_info(address), witness.pointer(address)
            expect_equal(info.kind, facts.kind, "kind, as the witness sees it")
            if info.kind == "unregistered":
                continue
            for name in ("device_id", "device_pointer", "host_pointer"):
                seen = getattr(facts, name)
                if name == "host_pointer" and info.kind == "device" and seen is None:
                    expect(not env.device.capabilities.direct_host_access, "the witness has no address for the host")
                    continue
                expect_equal(getattr(info, name), seen, f"{name}, as the witness sees it")
            held = witness.address_range(address)
            if held is not None and info.base is not None:
                expect_equal((info.base, info.nbytes), held, "base and nbytes, as the witness sees them")
        env.write(buf, pattern(NBYTES))
        if resource.kind != "system":
            expect_bytes(witness.read(buf.handle, NBYTES), pattern(NBYTES), "the contents, as the witness sees them")


@check("POINTER-10")
def whether_it_can_leave_the_process(env: Env, resource: Any) -> None:
    with env.allocate(resource, NBYTES) as buf:
        buf.fill(1)
        env.device.synchronize()
        capable = env.pm.pointer_info(buf).ipc_capable
        expect(capable in (True, False, None), f"ipc_capable is {capable!r}")
        if resource.kind in ("async", "system"):
            expect(not capable, f"{resource.kind} memory is said to have a legacy handle")
        if env.pm.backend == "host" or resource.kind == "system":
            expect_equal(capable, False, "ipc_capable")
        expect_equal(env.pm.pointer_info(buf.handle).ipc_capable, capable, "ipc_capable of the address")
        expect_bytes(env.read(buf), b"\x01" * NBYTES, "the memory")
