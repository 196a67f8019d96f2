# SPDX-License-Identifier: MIT
"""Calls of the CPU runtime's C interface that are wrong in one argument each, and their answers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any

from portamem.conformance.kit.host_calls import (
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
    NOT_REGISTERED,
    NOT_SUPPORTED,
    NOWHERE,
    OUT_OF_MEMORY,
    PEER_UNSUPPORTED,
    UNSUPPORTED_LIMIT,
    Location,
    Machine,
    PoolProps,
)

RAN: list[int] = []
"""A number for each time that the kernel ran: it is never to run."""
_KERNEL = ctypes.CFUNCTYPE(None, c_void_p)(lambda _block: RAN.append(1))
_GRANULE = 64 << 10  # the least piece of virtual memory
_NO_KERNEL = ctypes.cast(_KERNEL, c_void_p).value


def refusals(m: Machine) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
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
        yield wrong(INVALID_HANDLE, "StreamGetId", handle, out)
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
    yield value("StreamGetId", s, None)
    yield wrong(INVALID_HANDLE, "StreamGetId", LEGACY, out)
    yield value("StreamBeginCapture", s, 3)
    yield value("StreamBeginCapture", s, -1)
    yield value("EventCreateWithFlags", None, 0)
    yield value("EventCreateWithFlags", out, 8)
    yield value("EventCreateWithFlags", out, 4)
    yield value("EventElapsedTime", None, m.timed, m.timed)
    yield wrong(INVALID_HANDLE, "EventElapsedTime", out, m.event, m.event)
    yield wrong(INVALID_HANDLE, "EventElapsedTime", out, m.timed, m.timed)  # never recorded
    yield from _of_virtual_memory(m)
    yield from _of_the_rest(m)


def _of_virtual_memory(m: Machine) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Calls of virtual memory, with two mappings side by side, addresses behind them, and memory that is not mapped."""
    rt, size = m.rt, _GRANULE
    at = rt.get("MemAddressReserve", 4 * size, 0, None)
    mapped, spare = (rt.get("MemCreate", size, DEVICE) for _ in range(2))
    for begin in (at, at + size):
        rt.do("MemMap", begin, size, 0, mapped)
    rt.do("MemSetAccess", at, size, DEVICE, 3)
    try:
        for name, arguments in (*_of_physical_memory(m), *_of_addresses(m, at), *_of_mappings(at, spare)):
            yield INVALID_VALUE, name, arguments
        for name, arguments in _where_nothing_can_be_used(m, at):
            yield INVALID_VALUE, name, arguments
        for ordinal in (-1, 99):
            where = Location(1, ordinal)
            yield INVALID_DEVICE, "MemGetAllocationGranularity", (m.out, where, 0)
            yield INVALID_DEVICE, "MemCreate", (m.out, size, where)
            yield INVALID_DEVICE, "MemSetAccess", (at, size, where, 3)
            yield INVALID_DEVICE, "MemGetAccess", (m.out, where, at)
        yield OUT_OF_MEMORY, "MemCreate", (m.out, 1 << 60, DEVICE)
        yield OUT_OF_MEMORY, "MemAddressReserve", (m.out, 1 << 60, 0, None)
        yield OUT_OF_MEMORY, "MemAddressReserve", (m.out, size, 1 << 63, None)
    finally:
        for begin in (at, at + size):
            rt.do("MemUnmap", begin, size)
        for handle in (mapped, spare):
            rt.do("MemRelease", handle)
        rt.do("MemAddressFree", at, 4 * size)
    for name, arguments in (
        ("MemRelease", (mapped,)),
        ("MemAddressFree", (at, 4 * size)),
        ("MemMap", (at, size, 0, mapped)),
        ("MemUnmap", (at, size)),
        ("MemGetAccess", (m.out, DEVICE, at)),
    ):
        yield INVALID_VALUE, name, arguments


def _of_physical_memory(m: Machine) -> Iterator[tuple[str, tuple[Any, ...]]]:
    out, size = m.out, _GRANULE
    yield "MemGetAllocationGranularity", (None, DEVICE, 0)
    for option in (-1, 2):
        yield "MemGetAllocationGranularity", (out, DEVICE, option)
    yield "MemCreate", (None, size, DEVICE)
    for bad in (0, 1, size - 4096, size + 1):
        yield "MemCreate", (out, bad, DEVICE)
    for where in (CPU, NOWHERE):
        yield "MemGetAllocationGranularity", (out, where, 0)
        yield "MemCreate", (out, size, where)
    for handle in (None, NOBODY, m.event):
        yield "MemRelease", (handle,)


def _of_addresses(m: Machine, at: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    out, size = m.out, _GRANULE
    yield "MemAddressReserve", (None, size, 0, None)
    for bad in (0, 4096, size + 1):
        yield "MemAddressReserve", (out, bad, 0, None)
    for alignment in (3, size + 4096):
        yield "MemAddressReserve", (out, size, alignment, None)
    yield "MemAddressFree", (at, 4 * size)  # memory is mapped there
    for begin, length in ((None, size), (at, 0), (at, size), (at, 8 * size), (at + size, 3 * size), (m.device, size)):
        yield "MemAddressFree", (begin, length)


def _of_mappings(at: int, spare: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    size = _GRANULE
    free = at + 2 * size
    for handle in (None, NOBODY):
        yield "MemMap", (free, size, 0, handle)
    yield "MemMap", (free, size, size, spare)
    for begin, length in (
        *((None, size), (free, 0), (free, 4096), (free, 2 * size), (free + 4096, size)),
        *((at, size), (at - size, size), (at + 4 * size, size), (at + 64 * size, size)),
    ):
        yield "MemMap", (begin, length, 0, spare)
    for begin, length in ((None, size), (at, 0), (at, 4096), (at, 2 * size), (at + 4096, size), (free, size)):
        yield "MemUnmap", (begin, length)
    for begin, length in ((None, size), (at, 0), (at, 4096), (at, 3 * size), (at + 4096, size), (free, size)):
        yield "MemSetAccess", (begin, length, DEVICE, 3)
    for flags in (-1, 1, 2, 4):
        yield "MemSetAccess", (at, size, DEVICE, flags)
    for where in (CPU, NOWHERE):
        yield "MemSetAccess", (at, size, where, 3)


def _where_nothing_can_be_used(m: Machine, at: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The calls that take any memory, with virtual memory that nothing may use, and some that takes none of it."""
    out, size, s = m.out, _GRANULE, m.stream
    yield "MemGetAccess", (None, DEVICE, at)
    for where in (CPU, NOWHERE):
        yield "MemGetAccess", (out, where, at)
    for begin in (None, m.device, at + 2 * size, at + 4 * size):
        yield "MemGetAccess", (out, DEVICE, begin)
    for begin in (at, at + size, at + 2 * size):
        yield "Free", (begin,)
        yield "FreeAsync", (begin, s)
        yield "HostFree", (begin,)
        yield "HostRegister", (begin, 4096, 0)
        yield "MemPrefetchAsync", (begin, 4096, DEVICE, 0, s)
    for begin in (at + size - 1, at + size, at + 2 * size):
        yield "Memcpy", (begin, m.device, 16, DEFAULT_DIRECTION)
        yield "Memcpy", (m.device, begin, 16, DEFAULT_DIRECTION)
        yield "MemsetAsync", (begin, 1, 16, s)


def _of_the_rest(m: Machine) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Kernels and knobs."""
    s, name = m.stream, "LaunchKernel"
    yield INVALID_VALUE, name, (None, 1, 1, None, 0, 0, s)
    yield INVALID_VALUE, name, (_NO_KERNEL, 0, 1, None, 0, 0, s)
    yield INVALID_VALUE, name, (_NO_KERNEL, 1, 0, None, 0, 0, s)
    yield INVALID_VALUE, name, (_NO_KERNEL, 1, 1, None, 1, 0, s)
    for flags in (2, 3, 1 << 31):
        yield INVALID_VALUE, name, (_NO_KERNEL, 1, 1, None, 0, flags, s)
    for ordinal in (-1, 99):
        yield INVALID_DEVICE, "KnobSetCapacity", (ordinal, 1 << 20)
    for code in (-1, 0, 1000):
        yield INVALID_VALUE, "KnobFailCall", (b"Malloc", 1, code)
        yield INVALID_VALUE, "KnobFailCall", (None, 1, code)
