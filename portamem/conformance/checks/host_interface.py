# SPDX-License-Identifier: MIT
"""Shows the clauses of the CPU runtime's C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from portamem.conformance.check import check
from portamem.conformance.env import Env
from portamem.conformance.expect import expect, expect_bytes, expect_equal
from portamem.conformance.host_calls import (
    CPU,
    DEFAULT_DIRECTION,
    DEVICE,
    HUGE,
    INVALID_DEVICE,
    INVALID_DIRECTION,
    INVALID_HANDLE,
    INVALID_VALUE,
    LEGACY,
    NOBODY,
    NOT_READY,
    NOT_REGISTERED,
    NOT_SUPPORTED,
    NOWHERE,
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
from portamem.conformance.memory import pattern


def _refusals(m: Machine) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Calls that are wrong in one argument each, and their answers."""
    out, s, dst, src = m.out, m.stream, m.device, m.other
    here = ctypes.addressof(m.plain)

    def wrong(code: int, name: str, *arguments: Any) -> tuple[int, str, tuple[Any, ...]]:
        return code, name, arguments

    def value(name: str, *arguments: Any) -> tuple[int, str, tuple[Any, ...]]:
        return INVALID_VALUE, name, arguments

    for name in ("GetDeviceCount", "GetDevice", "ThreadExchangeStreamCaptureMode"):
        yield value(name, None)
    yield value("ThreadExchangeStreamCaptureMode", byref(c_int(3)))
    yield value("ThreadExchangeStreamCaptureMode", byref(c_int(-1)))
    for ordinal in (-1, 99):
        yield wrong(INVALID_DEVICE, "SetDevice", ordinal)
        for name in ("GetDeviceProperties", "DeviceGetUuid", "DeviceGetDefaultMemPool", "DeviceGetMemPool"):
            yield wrong(INVALID_DEVICE, name, out, ordinal)
        yield wrong(INVALID_DEVICE, "DeviceGetAttribute", out, 0, ordinal)
        yield wrong(INVALID_DEVICE, "DeviceGetPCIBusId", out, 64, ordinal)
        yield wrong(INVALID_DEVICE, "DeviceCanAccessPeer", out, ordinal, 0)
        yield wrong(INVALID_DEVICE, "DeviceCanAccessPeer", out, 0, ordinal)
        yield wrong(INVALID_DEVICE, "DeviceEnablePeerAccess", ordinal, 0)
        yield wrong(INVALID_DEVICE, "DeviceDisablePeerAccess", ordinal)
        yield wrong(INVALID_DEVICE, "DeviceSetMemPool", ordinal, m.pool)
        yield wrong(INVALID_DEVICE, "MemPoolSetAccess", m.pool, Location(1, ordinal), 3)
        yield value("MemPoolGetAccess", out, m.pool, Location(1, ordinal))
        yield value("MemPoolCreate", out, byref(PoolProps(Location(1, ordinal), 0)))
        yield wrong(INVALID_DEVICE, "MemcpyPeer", dst, ordinal, src, 0, 16)
        yield wrong(INVALID_DEVICE, "MemcpyPeerAsync", dst, 0, src, ordinal, 16, s)
        yield wrong(INVALID_DEVICE, "MemPrefetchAsync", m.managed, 4096, Location(1, ordinal), 0, s)
    for name in ("GetDeviceProperties", "DeviceGetUuid", "DeviceGetDefaultMemPool", "DeviceGetMemPool"):
        yield value(name, None, 0)
    yield value("DeviceGetAttribute", None, 0, 0)
    yield value("DeviceGetAttribute", out, 999, 0)
    yield value("DeviceGetAttribute", out, -1, 0)
    yield value("DeviceGetPCIBusId", None, 64, 0)
    yield value("DeviceGetPCIBusId", out, 12, 0)
    yield value("MemGetInfo", None, out)
    yield value("MemGetInfo", out, None)
    yield value("DeviceGetLimit", None, 0)
    for limit in (-1, 3):
        yield wrong(UNSUPPORTED_LIMIT, "DeviceGetLimit", out, limit)
        yield wrong(UNSUPPORTED_LIMIT, "DeviceSetLimit", limit, 1024)
    yield value("DeviceCanAccessPeer", None, 0, 0)
    yield value("DeviceEnablePeerAccess", 0, 1)
    yield wrong(PEER_UNSUPPORTED, "DeviceEnablePeerAccess", 0, 0)
    yield value("DeviceGetStreamPriorityRange", None, out)
    yield value("DeviceGetStreamPriorityRange", out, None)

    yield value("Malloc", None, 16)
    yield wrong(OUT_OF_MEMORY, "Malloc", out, HUGE)
    yield value("ExtMallocWithFlags", None, 16, 0)
    yield value("ExtMallocWithFlags", out, 16, 2)
    yield value("MallocPitch", None, out, 16, 16)
    yield value("MallocPitch", out, None, 16, 16)
    yield wrong(OUT_OF_MEMORY, "MallocPitch", out, byref(c_size_t()), HUGE, 1)
    yield wrong(OUT_OF_MEMORY, "MallocPitch", out, byref(c_size_t()), 1 << 40, 1 << 40)
    yield value("MallocManaged", None, 16, 1)
    for flags in (0, 3, 4):
        yield value("MallocManaged", out, 16, flags)
    yield wrong(OUT_OF_MEMORY, "MallocManaged", out, HUGE, 1)
    yield value("HostMalloc", None, 16, 0)
    yield value("HostMalloc", out, 16, 8)
    yield wrong(OUT_OF_MEMORY, "HostMalloc", out, HUGE, 0)
    for name in ("Free", "HostFree"):
        yield value(name, here)
        yield value(name, dst + 16)
    yield value("Free", m.pinned)
    yield value("HostFree", dst)
    yield value("HostFree", m.managed)
    yield value("FreeAsync", m.pinned, s)
    yield value("FreeAsync", here, s)
    yield wrong(NOT_SUPPORTED, "FreeAsync", m.managed, s)
    yield value("HostRegister", None, 16, 0)
    yield value("HostRegister", here, 0, 0)
    yield value("HostRegister", here, 16, 16)
    yield value("HostRegister", here, HUGE, 0)
    yield value("HostRegister", m.pinned, 16, 0)
    yield value("HostUnregister", None)
    yield wrong(NOT_REGISTERED, "HostUnregister", here)
    yield value("HostUnregister", m.pinned)
    yield value("HostGetDevicePointer", None, m.pinned, 0)
    yield value("HostGetDevicePointer", out, m.pinned, 1)
    yield value("HostGetDevicePointer", out, dst, 0)
    yield value("HostGetDevicePointer", out, here, 0)
    yield value("HostGetFlags", None, m.pinned)
    yield value("HostGetFlags", out, dst)
    yield value("HostGetFlags", out, here)
    yield value("PointerGetAttributes", None, dst)
    yield value("PointerGetAttribute", None, 0, dst)
    yield value("PointerGetAttribute", out, 1, dst)
    yield value("PointerGetAttribute", out, 0, here)

    yield value("MemPrefetchAsync", m.managed, 4096, DEVICE, 1, s)
    yield value("MemPrefetchAsync", m.managed, 0, DEVICE, 0, s)
    yield value("MemPrefetchAsync", m.managed, 4097, DEVICE, 0, s)
    yield value("MemPrefetchAsync", m.managed + 96, 4001, DEVICE, 0, s)
    yield value("MemPrefetchAsync", m.managed, 16, NOWHERE, 0, s)
    yield value("MemPrefetchAsync", dst, 16, DEVICE, 0, s)
    yield value("MemAdvise", m.managed, 16, 0, CPU)
    yield value("MemAdvise", m.managed, 16, 7, CPU)
    for advice in (3, 5, 6):
        yield value("MemAdvise", m.managed, 16, advice, NOWHERE)
    yield value("MemAdvise", m.pinned, 16, 1, CPU)
    yield value("MemRangeGetAttribute", None, 4, 1, m.managed, 16)
    yield value("MemRangeGetAttribute", out, 8, 1, m.managed, 16)
    for size in (0, 6):
        yield value("MemRangeGetAttribute", out, size, 3, m.managed, 16)
    yield value("MemRangeGetAttribute", out, 4, 5, m.managed, 16)
    yield value("StreamAttachMemAsync", s, m.managed + 16, 0, 1)
    yield value("StreamAttachMemAsync", s, m.pinned, 0, 1)
    yield value("StreamAttachMemAsync", s, m.managed, 16, 1)
    for flags in (0, 3, 8):
        yield value("StreamAttachMemAsync", s, m.managed, 0, flags)
    yield value("StreamAttachMemAsync", LEGACY, m.managed, 0, 4)

    yield value("MallocAsync", None, 16, s)
    yield wrong(OUT_OF_MEMORY, "MallocAsync", out, HUGE, s)
    yield value("MallocFromPoolAsync", None, 16, m.pool, s)
    yield value("MemPoolCreate", None, byref(PoolProps(DEVICE, 0)))
    yield value("MemPoolCreate", out, None)
    yield value("MemPoolCreate", out, byref(PoolProps(CPU, 0)))
    for arguments in ((None,), (NOBODY,)):
        yield value("MemPoolDestroy", *arguments)
        yield value("MemPoolTrimTo", *arguments, 0)
        yield value("MemPoolSetAttribute", *arguments, 4, 0)
        yield value("MemPoolGetAttribute", *arguments, 4, out)
        yield value("MemPoolSetAccess", *arguments, DEVICE, 3)
        yield value("MemPoolGetAccess", out, *arguments, DEVICE)
        yield value("MallocFromPoolAsync", out, 16, *arguments, s)
        yield value("DeviceSetMemPool", 0, *arguments)
    yield value("MemPoolDestroy", m.rt.get("DeviceGetDefaultMemPool", 0))
    for attribute in (0, 5, 7, 9):
        yield value("MemPoolSetAttribute", m.pool, attribute, 0)
    for attribute in (6, 8):
        yield value("MemPoolSetAttribute", m.pool, attribute, 1)
    for attribute in (0, 9):
        yield value("MemPoolGetAttribute", m.pool, attribute, out)
    yield value("MemPoolGetAttribute", m.pool, 4, None)
    yield value("MemPoolSetAccess", m.pool, CPU, 3)
    yield value("MemPoolSetAccess", m.pool, DEVICE, 2)
    yield wrong(INVALID_DEVICE, "MemPoolSetAccess", m.pool, DEVICE, 0)
    yield value("MemPoolGetAccess", None, m.pool, DEVICE)
    yield value("MemPoolGetAccess", out, m.pool, CPU)

    for direction in (-1, 5):
        yield wrong(INVALID_DIRECTION, "Memcpy", dst, src, 16, direction)
        yield wrong(INVALID_DIRECTION, "MemcpyAsync", dst, src, 16, direction, s)
        yield wrong(INVALID_DIRECTION, "Memcpy2D", dst, 16, src, 16, 16, 2, direction)
        yield wrong(INVALID_DIRECTION, "Memcpy2DAsync", dst, 16, src, 16, 16, 2, direction, s)
    for a, b in ((None, src), (dst, None)):
        yield value("Memcpy", a, b, 16, DEFAULT_DIRECTION)
        yield value("MemcpyAsync", a, b, 16, DEFAULT_DIRECTION, s)
        yield value("Memcpy2D", a, 16, b, 16, 16, 2, DEFAULT_DIRECTION)
        yield value("Memcpy2DAsync", a, 16, b, 16, 16, 2, DEFAULT_DIRECTION, s)
    yield value("Memcpy", dst, src, 4097, DEFAULT_DIRECTION)
    yield value("Memcpy", dst + 96, src, 4001, DEFAULT_DIRECTION)
    yield value("Memcpy", dst, src, HUGE, DEFAULT_DIRECTION)
    yield value("Memcpy2D", dst, 15, src, 16, 16, 2, DEFAULT_DIRECTION)
    yield value("Memcpy2D", dst, 16, src, 15, 16, 2, DEFAULT_DIRECTION)
    yield value("Memcpy2D", dst, 1024, src, 16, 16, 5, DEFAULT_DIRECTION)
    yield value("Memcpy2D", dst, HUGE, src, 16, 16, 4, DEFAULT_DIRECTION)
    for direction, a, b in ((0, dst, here), (0, here, src), (1, dst, src), (1, here, here), (2, here, here)):
        yield value("Memcpy", a, b, 16, direction)
    for direction, a, b in ((2, dst, src), (3, here, src), (3, dst, here)):
        yield value("Memcpy", a, b, 16, direction)
    yield value("MemcpyPeer", here, 0, src, 0, 16)
    yield value("MemcpyPeerAsync", dst, 0, here, 0, 16, s)
    yield value("MemcpyPeerAsync", dst, 0, src, 0, 4097, s)
    yield value("Memset", None, 1, 16)
    yield value("Memset", dst, 1, 4097)
    yield value("Memset2D", dst, 15, 1, 16, 2)
    yield value("Memset2DAsync", dst, 15, 1, 16, 2, s)
    yield value("Memset2DAsync", None, 16, 1, 16, 2, s)
    yield value("Memset2DAsync", dst, 1024, 1, 16, 5, s)
    yield value("Memcpy3D", None)
    yield value("Memcpy3DAsync", None, s)

    for handle in (NOBODY, m.event):
        for name in ("StreamDestroy", "StreamQuery", "StreamSynchronize"):
            yield wrong(INVALID_HANDLE, name, handle)
        for name in ("StreamGetFlags", "StreamGetPriority", "StreamGetDevice", "StreamIsCapturing", "StreamEndCapture"):
            yield wrong(INVALID_HANDLE, name, handle, out)
        yield wrong(INVALID_HANDLE, "MallocAsync", out, 16, handle)
        yield wrong(INVALID_HANDLE, "FreeAsync", None, handle)
        yield wrong(INVALID_HANDLE, "MemsetAsync", dst, 1, 16, handle)
        yield wrong(INVALID_HANDLE, "Memset2DAsync", dst, 16, 1, 16, 2, handle)
        yield wrong(INVALID_HANDLE, "MemcpyAsync", dst, src, 16, DEFAULT_DIRECTION, handle)
        yield wrong(INVALID_HANDLE, "Memcpy2DAsync", dst, 16, src, 16, 16, 2, DEFAULT_DIRECTION, handle)
        yield wrong(INVALID_HANDLE, "LaunchKernel", _NO_KERNEL, 1, 1, None, 0, 0, handle)
        yield wrong(INVALID_HANDLE, "StreamBeginCapture", handle, 0)
    for handle in (None, NOBODY, s):
        for name in ("EventDestroy", "EventQuery", "EventSynchronize"):
            yield wrong(INVALID_HANDLE, name, handle)
        yield wrong(INVALID_HANDLE, "EventRecord", handle, s)
        yield wrong(INVALID_HANDLE, "StreamWaitEvent", s, handle, 0)
        yield wrong(INVALID_HANDLE, "EventElapsedTime", out, handle, m.timed)
        yield wrong(INVALID_HANDLE, "EventElapsedTime", out, m.timed, handle)
    for handle in (None, NOBODY):
        yield value("GraphDestroy", handle)
        yield value("GraphGetNodeCount", handle, out)
    yield wrong(INVALID_HANDLE, "StreamDestroy", LEGACY)
    yield value("StreamCreateWithPriority", None, 0, 0)
    yield value("StreamCreateWithPriority", out, 2, 0)
    yield value("StreamWaitEvent", s, m.event, 1)
    yield value("LaunchHostFunc", s, None, None)
    for name in ("StreamGetFlags", "StreamGetPriority", "StreamGetDevice", "StreamIsCapturing", "StreamEndCapture"):
        yield value(name, s, None)
    yield value("StreamBeginCapture", s, 3)
    yield value("StreamBeginCapture", s, -1)
    yield value("EventCreateWithFlags", None, 0)
    yield value("EventCreateWithFlags", out, 8)
    yield value("EventCreateWithFlags", out, 4)
    yield value("EventElapsedTime", None, m.timed, m.timed)
    yield wrong(INVALID_HANDLE, "EventElapsedTime", out, m.event, m.event)
    yield wrong(INVALID_HANDLE, "EventElapsedTime", out, m.timed, m.timed)  # never recorded
    yield from _refusals_of_the_rest(m)


_RAN: list[int] = []
_KERNEL = ctypes.CFUNCTYPE(None, c_void_p)(lambda _block: _RAN.append(1))
_NO_KERNEL = ctypes.cast(_KERNEL, c_void_p).value
"""The address of a kernel that is never to run."""


def _refusals_of_the_rest(m: Machine) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Kernels, virtual memory and knobs."""
    out, s, name = m.out, m.stream, "LaunchKernel"
    yield INVALID_VALUE, name, (None, 1, 1, None, 0, 0, s)
    yield INVALID_VALUE, name, (_NO_KERNEL, 0, 1, None, 0, 0, s)
    yield INVALID_VALUE, name, (_NO_KERNEL, 1, 0, None, 0, 0, s)
    yield INVALID_VALUE, name, (_NO_KERNEL, 1, 1, None, 1, 0, s)
    for flags in (2, 3, 1 << 31):
        yield INVALID_VALUE, name, (_NO_KERNEL, 1, 1, None, 0, flags, s)
    name = "MemGetAllocationGranularity"
    yield INVALID_VALUE, name, (None, DEVICE, 0)
    for where in (CPU, NOWHERE):
        yield INVALID_VALUE, name, (out, where, 0)
    for option in (-1, 2):
        yield INVALID_VALUE, name, (out, DEVICE, option)
    yield NOT_SUPPORTED, name, (out, DEVICE, 0)
    for ordinal in (-1, 99):
        yield INVALID_DEVICE, name, (out, Location(1, ordinal), 0)
        yield INVALID_DEVICE, "KnobSetCapacity", (ordinal, 1 << 20)
    for code in (-1, 0, 1000):
        yield INVALID_VALUE, "KnobFailCall", (b"Malloc", 1, code)
        yield INVALID_VALUE, "KnobFailCall", (None, 1, code)


@check("HOST-19")
@on_a_machine(Machine)
def wrong_arguments_are_refused(env: Env, machine: Machine) -> None:
    rt, before = machine.rt, env.device.memory_info()
    for code, name, arguments in _refusals(machine):
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
    expect_equal(_RAN, [], "what ran of kernels that were refused")
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
    rt.do("StreamSynchronize", LEGACY)  # within the device nobody waits for a copy before the memory is freed


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
