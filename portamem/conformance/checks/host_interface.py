# SPDX-License-Identifier: MIT
"""Shows the clauses of the CPU runtime's C interface."""

from __future__ import annotations

from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.host_calls import (
    DEFAULT_DIRECTION,
    DEVICE,
    HUGE,
    INVALID_DEVICE,
    INVALID_DIRECTION,
    INVALID_HANDLE,
    INVALID_VALUE,
    LEGACY,
    NOT_READY,
    NOT_REGISTERED,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    PEER_UNSUPPORTED,
    UNSUPPORTED_LIMIT,
    Copy3D,
    Location,
    Machine,
    PoolProps,
    Position,
    Volume,
    on_a_machine,
)
from portamem.conformance.kit.host_refusals import RAN, refusals
from portamem.conformance.kit.memory import pattern
from portamem.errors import Error


@check("HOST-19")
@on_a_machine(Machine)
def wrong_arguments_are_refused(env: Env, machine: Machine) -> None:
    rt, before = machine.rt, env.device.memory_info()
    for code, name, arguments in refusals(machine):
        machine.out.raw = b"\xee" * 64 + bytes(960)
        shown = f"{name}{tuple(each for each in arguments if isinstance(each, int | None))}"
        expect_equal(rt.answer(name, *arguments), code, f"the answer of {shown}")
        expect(rt.detail(), f"{shown} does not say why it is refused")
        if code == OUT_OF_MEMORY and name in ("MallocManaged", "HostMalloc"):
            expect("more than an address can count" in rt.detail(), f"{shown} says only: {rt.detail()}")
        expect_equal(rt.answer("PeekAtLastError"), code, f"the last error after {shown}")
        expect_equal(rt.answer("GetLastError"), code, f"the last error after {shown}")
        expect_equal(rt.answer("GetLastError"), 0, f"the last error, once it was asked for after {shown}")
    expect_equal(rt.answer("RuntimeGetVersion", None), INVALID_VALUE, "the answer of RuntimeGetVersion(None)")
    rt.do("StreamSynchronize", machine.stream)
    expect_equal(RAN, [], "what ran of kernels that were refused")
    expect_equal(env.device.memory_info().free, before.free, "free memory after calls that were refused")
    expect_equal(rt.get("GetDevice", kind=c_int), 0, "the current device")
    data = pattern(4096)
    rt.do("Memcpy", machine.device, data, 4096, DEFAULT_DIRECTION)
    rt.do("Memcpy", machine.plain, machine.device, 4096, DEFAULT_DIRECTION)
    expect_bytes(machine.plain.raw, data, "memory after calls that were refused")


@check("HOST-19")
@on_a_machine(Machine)
def nothing_is_fine_where_nothing_is_done(env: Env, machine: Machine) -> None:
    rt, out, stream = machine.rt, machine.out, machine.stream
    for name, *arguments in (
        ("Free", None),
        ("HostFree", None),
        ("FreeAsync", None, stream),
        ("Memcpy", machine.device, machine.other, 0, DEFAULT_DIRECTION),
        ("Memcpy", None, None, 0, DEFAULT_DIRECTION),
        ("Memcpy2D", None, 0, None, 0, 16, 0, DEFAULT_DIRECTION),
        ("Memcpy2D", None, 0, None, 0, 0, 16, DEFAULT_DIRECTION),
        ("Memset", None, 1, 0),
        ("Memset2D", None, 0, 1, 16, 0),
        ("Memset2D", None, 0, 1, 0, 16),
        ("Memset2DAsync", None, 0, 1, 16, 0, stream),
        ("Memset2DAsync", None, 0, 1, 0, 16, stream),
        ("Memcpy2DAsync", None, 0, None, 0, 16, 0, DEFAULT_DIRECTION, stream),
        ("MemcpyPeer", None, 0, None, 0, 0),
        ("MemcpyPeerAsync", None, 0, None, 0, 0, stream),
        ("Memcpy3D", byref(Copy3D(extent=Position(16, 16, 0), kind=DEFAULT_DIRECTION))),
        ("Memcpy3D", byref(Copy3D(extent=Position(16, 0, 16), kind=DEFAULT_DIRECTION))),
        ("Memcpy3D", byref(Copy3D(extent=Position(0, 16, 16), kind=DEFAULT_DIRECTION))),
        ("EventQuery", machine.event),
        ("EventSynchronize", machine.event),
        ("StreamWaitEvent", stream, machine.event, 0),
    ):
        rt.do(name, *arguments)
    for name, *arguments in (
        ("Malloc", 0),
        ("ExtMallocWithFlags", 0, 1),
        ("MallocManaged", 0, 1),
        ("HostMalloc", 0, 7),
        ("MallocAsync", 0, stream),
        ("MallocFromPoolAsync", 0, machine.pool, stream),
    ):
        out.raw = b"\xee" * 1024
        rt.do(name, out, *arguments)
        expect_bytes(out.raw[:9], bytes(8) + b"\xee", f"the address of nothing from {name}")
    for width, height in ((0, 16), (16, 0), (0, 0)):
        address, pitch = c_void_p(1), c_size_t(1)
        rt.do("MallocPitch", byref(address), byref(pitch), width, height)
        expect_equal((address.value, pitch.value), (None, 0), f"address and pitch of {width} x {height} bytes")


@check("HOST-19")
@on_a_machine(Machine)
def every_code_has_a_text(env: Env, machine: Machine) -> None:
    rt = machine.rt
    unknown = rt.text("GetErrorString", 123_456)
    texts = {code: rt.text("GetErrorString", code) for code in range(-1, 1000)}
    known = {code for code, text in texts.items() if text != unknown}
    codes = {0, INVALID_VALUE, OUT_OF_MEMORY, INVALID_DIRECTION, INVALID_DEVICE, UNSUPPORTED_LIMIT, PEER_UNSUPPORTED}
    codes |= {INVALID_HANDLE, NOT_READY, NOT_REGISTERED, NOT_SUPPORTED}
    expect_equal(sorted(codes - known), [], "codes without a text")
    expect(unknown and all(texts.values()), "the text of a code is empty")
    expect_equal(len({texts[code] for code in known}), len(known), "the number of different texts")
    expect_equal(rt.answer("Free", machine.device + 16), INVALID_VALUE, "the answer of a wrong free")
    expect_equal(rt.text("GetErrorDetail", INVALID_VALUE), rt.detail(), "the detail of the code that was answered")
    expect(rt.detail() not in ("", texts[INVALID_VALUE]), f"the detail says only: {rt.detail()}")
    for code in (0, OUT_OF_MEMORY, 123_456):
        wanted = texts.get(code, unknown)
        expect_equal(rt.text("GetErrorDetail", code), wanted, f"the detail of {code}, which was not answered")
    rt.answer("GetLastError")


@check("HOST-19")
@on_a_machine(Machine)
def what_kernels_call_answers_null_to_others(env: Env, machine: Machine) -> None:
    rt = machine.rt
    rt.do("Memset", machine.device, 7, 4096)
    for name, *arguments in (
        ("KernelAddress", machine.device, 16),
        ("KernelAddress", None, 0),
        ("KernelMalloc", 16),
        ("KernelMallocAligned", 64, 16),
        ("KernelMallocAligned", 3, 16),
        ("KernelFree", None),
        ("KernelFree", machine.device),
    ):
        expect_equal(rt.address(name, *arguments), None, f"the answer of {name} outside a kernel")
        expect_equal(rt.answer("PeekAtLastError"), 0, f"the last error after {name} outside a kernel")
    rt.do("Memcpy", machine.plain, machine.device, 4096, DEFAULT_DIRECTION)
    expect_bytes(machine.plain.raw, b"\7" * 4096, "memory that was given to a function for kernels")


@check("HOST-20")
@on_a_machine(Machine)
def boxes_of_volumes(env: Env, machine: Machine) -> None:
    rt = machine.rt
    shape, pitch, height = (7, 3, 4), 32, 5
    for form, stream in (("Memcpy3D", ()), ("Memcpy3DAsync", (machine.stream,))):
        source, target = pattern(4096, 1), pattern(4096, 2)
        rt.do("Memcpy", machine.other, source, 4096, DEFAULT_DIRECTION)
        rt.do("Memcpy", machine.device, target, 4096, DEFAULT_DIRECTION)
        box = Copy3D(
            src=Volume(machine.other, pitch, pitch, height),
            src_at=Position(5, 1, 2),
            dst=Volume(machine.device, 2 * pitch, 2 * pitch, height + 2),
            dst_at=Position(9, 3, 1),
            extent=Position(*shape),
            kind=DEFAULT_DIRECTION,
        )
        rt.do(form, byref(box), *stream)
        rt.do("StreamSynchronize", *(stream or (LEGACY,)))
        wanted = bytearray(target)
        for z in range(shape[2]):
            for y in range(shape[1]):
                start = ((z + 1) * (height + 2) + y + 3) * 2 * pitch + 9
                begin = ((z + 2) * height + y + 1) * pitch + 5
                wanted[start : start + shape[0]] = source[begin : begin + shape[0]]
        rt.do("Memcpy", machine.plain, machine.device, 4096, DEFAULT_DIRECTION)
        expect_bytes(machine.plain.raw, bytes(wanted), f"the volume after {form}")


@check("HOST-20")
@on_a_machine(Machine)
def boxes_that_leave_their_volume(env: Env, machine: Machine) -> None:
    rt = machine.rt

    def answer(pitch: int = 32, height: int = 4, at: tuple[int, ...] = (0, 0, 0), extent: Any = (32, 4, 32)) -> int:
        whole = Volume(machine.device, pitch, pitch, height)
        part = Copy3D(
            src=whole,
            src_at=Position(*at),
            dst=Volume(machine.other, 32, 32, 4),
            extent=Position(*extent),
            kind=DEFAULT_DIRECTION,
        )
        return rt.answer("Memcpy3D", byref(part))

    expect_equal(answer(), 0, "the answer for all of a volume")
    expect_equal(answer(at=(8, 1, 4), extent=(24, 3, 28)), 0, "the answer for its far corner")
    expect_equal(answer(height=0, extent=(32, 4, 1)), 0, "the answer for a slice of a volume without height")
    for words, arguments in (
        ("wider than the pitch", {"pitch": 31}),
        ("pushed out of its row", {"at": (1, 0, 0)}),
        ("higher than the volume", {"height": 3}),
        ("pushed out of its slice", {"at": (0, 1, 0)}),
        ("pushed out of the memory", {"at": (0, 0, 1)}),
        ("without height, of two slices", {"height": 0, "extent": (32, 4, 2)}),
        ("without height, not in the first slice", {"height": 0, "at": (0, 0, 1), "extent": (32, 4, 1)}),
        ("beyond counting", {"at": (0, 0, HUGE)}),
    ):
        expect_equal(answer(**arguments), INVALID_VALUE, f"the answer for a box that is {words}")
        rt.answer("GetLastError")
    rt.do("StreamSynchronize", LEGACY)  # the host does not wait for copies within a device by itself


@check("HOST-21")
@on_a_machine(Machine)
def copies_between_devices(env: Env, machine: Machine) -> None:
    other = env.other_device.ordinal
    rt = machine.rt
    rt.do("SetDevice", other)
    there = rt.get("Malloc", 4096)
    rt.do("SetDevice", 0)
    for form, stream in (("MemcpyPeer", ()), ("MemcpyPeerAsync", (machine.stream,))):
        data = pattern(4096, len(form))
        rt.do("Memcpy", machine.device, data, 4096, DEFAULT_DIRECTION)
        rt.do(form, there, other, machine.device, 0, 4096, *stream)
        rt.do("MemcpyAsync", machine.other, there, 4096, DEFAULT_DIRECTION, *(stream or (LEGACY,)))
        rt.do("StreamSynchronize", *(stream or (LEGACY,)))
        rt.do("Memcpy", machine.plain, machine.other, 4096, DEFAULT_DIRECTION)
        expect_bytes(machine.plain.raw, data, f"memory that went to device {other} by {form}, and back")
        for arguments in ((there, 0, machine.device, 0, 16), (machine.other, 0, there, 0, 16)):
            expect_equal(
                rt.answer(form, *arguments, *stream), INVALID_VALUE, f"the answer for the wrong device, {form}"
            )
            rt.answer("GetLastError")
    rt.do("Free", there)


@check("HOST-22")
@on_a_machine(Machine)
def handles_say_what_they_are(env: Env, machine: Machine) -> None:
    other = env.other_device.ordinal
    rt = machine.rt
    rt.do("SetDevice", other)
    blocking, there = rt.get("StreamCreateWithPriority", 0, 0), rt.get("EventCreateWithFlags", 0)
    rt.do("SetDevice", 0)
    for stream, flags, device in (
        (machine.stream, 1, 0),
        (blocking, 0, other),
        (None, 0, 0),
        (LEGACY, 0, 0),
        (2, 0, 0),
    ):
        found = c_uint(9), c_int(9), c_int(9)
        for name, value in zip(("Flags", "Device", "Priority"), found, strict=True):
            rt.do(f"StreamGet{name}", stream, byref(value))
        expect_equal([each.value for each in found], [flags, device, 0], f"flags, device and priority of {stream}")
    for event, stream in ((there, machine.stream), (machine.event, blocking)):
        expect_equal(
            rt.answer("EventRecord", event, stream), INVALID_HANDLE, "the answer for an event of another device"
        )
        rt.answer("GetLastError")
    rt.do("EventRecord", there, blocking)
    rt.do("EventRecord", machine.timed, machine.stream)
    rt.do("EventSynchronize", there)
    elapsed = c_float()
    code = rt.answer("EventElapsedTime", byref(elapsed), machine.timed, there)
    expect_equal(code, INVALID_HANDLE, "the answer for the time between two devices")
    rt.answer("GetLastError")
    rt.do("EventSynchronize", machine.timed)
    rt.do("EventElapsedTime", byref(elapsed), machine.timed, machine.timed)
    expect_equal(elapsed.value, 0.0, "the time from an event to itself")
    for handle, name in ((blocking, "StreamDestroy"), (there, "EventDestroy")):
        rt.do(name, handle)
        expect_equal(rt.answer(name, handle), INVALID_HANDLE, f"the answer of a second {name}")
        rt.answer("GetLastError")


@check("HOST-22")
@on_a_machine(Machine)
def pools_say_who_may_reach_them(env: Env, machine: Machine) -> None:
    other = env.other_device.ordinal
    rt, there = machine.rt, Location(1, other)
    flags = c_int(9)

    def access(where: Location) -> int:
        rt.do("MemPoolGetAccess", byref(flags), machine.pool, where)
        return flags.value

    expect_equal((access(DEVICE), access(there)), (3, 0), "access of its own and of another device")
    for wanted in (1, 3, 0):
        rt.do("MemPoolSetAccess", machine.pool, there, wanted)
        expect_equal((access(DEVICE), access(there)), (3, wanted), "access of both after it was set for the other")
    rt.do("MemPoolSetAccess", machine.pool, DEVICE, 3)
    default = rt.get("DeviceGetDefaultMemPool", 0)
    expect(default != rt.get("DeviceGetDefaultMemPool", other), "two devices share a default pool")
    expect_equal(rt.get("DeviceGetMemPool", 0), default, "the current pool")
    expect_equal(rt.answer("DeviceSetMemPool", other, machine.pool), INVALID_VALUE, "the answer for another's pool")
    rt.answer("GetLastError")
    rt.do("DeviceSetMemPool", 0, machine.pool)
    expect_equal(rt.get("DeviceGetMemPool", 0), machine.pool, "the current pool after it was set")
    memory = rt.get("MallocAsync", 4096, machine.stream)
    used = c_uint64()
    rt.do("MemPoolGetAttribute", machine.pool, 7, byref(used))
    expect_equal(used.value, 4096, "bytes used of the current pool")
    rt.do("FreeAsync", memory, machine.stream)
    rt.do("StreamSynchronize", machine.stream)
    spare = rt.get("MemPoolCreate", byref(PoolProps(DEVICE, 0)))
    rt.do("DeviceSetMemPool", 0, spare)
    rt.do("MemPoolDestroy", spare)
    expect_equal(rt.get("DeviceGetMemPool", 0), default, "the current pool after it was destroyed")


@check("HOST-22")
def memory_that_is_not_open_to_another_device(env: Env) -> None:
    other = env.other_device
    far = env.allocate(env.resource("device", other), 4096)
    env.write(far, pattern(4096, 1))
    for name in ("async", "virtual"):
        resource = env.resource(name)
        with env.allocate(resource, 4096) as near:
            env.write(near, pattern(4096, 2))
            for target, source in ((near, far), (far, near)):
                for stream in (None, env.stream(), env.stream(other)):
                    with refused(Error, saying="set_access"):
                        env.pm.copy(target, source, stream=stream)
                with refused(Error, saying="set_access"):
                    env.pm.copy_2d(target, source, width=8, height=4)
                with refused(Error, saying="set_access"):
                    env.pm.copy_3d(target, source, width=8, height=4, depth=2)
            expect_bytes(env.read(near), pattern(4096, 2), f"{name} memory after refusals")
            expect_bytes(env.read(far), pattern(4096, 1), "memory of the other device after refusals")
            resource.set_access(other, "read_write")
            env.pm.copy(far, near)
            expect_bytes(env.read(far), pattern(4096, 2), "memory of the other device once access was given")
            env.write(far, pattern(4096, 1))
    far.close()


@check("HOST-22")
@on_a_machine(Machine)
def high_water_marks_are_reset_alone(env: Env, machine: Machine) -> None:
    rt, used, reserved = machine.rt, 8, 6

    def read(attribute: int) -> int:
        value = c_uint64()
        rt.do("MemPoolGetAttribute", machine.pool, attribute, byref(value))
        return value.value

    for mark, other in ((used, reserved), (reserved, used)):
        memory = c_void_p()
        rt.do("MallocFromPoolAsync", byref(memory), 4096, machine.pool, machine.stream)
        rt.do("FreeAsync", memory, machine.stream)
        rt.do("StreamSynchronize", machine.stream)
        rt.do("MemPoolTrimTo", machine.pool, 0)
        before = read(other)
        expect(before >= 4096 and read(mark) >= 4096, "a high-water mark does not know of memory that was in use")
        rt.do("MemPoolSetAttribute", machine.pool, mark, 0)
        expect_equal(
            (read(mark), read(other)), (0, before), f"attributes {mark} and {other} after a reset of the first"
        )
