"""A script: calls libamdhip64 through hip-python and through portamem's ground floor, and prints both answers as JSON.

The argument is the library made from ground_floor.cpp. It runs as a process of its own, as calls without a device may
change what later ones answer.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

hip: Any = __import__("hip", fromlist=["hip"]).hip
floor = ctypes.CDLL(sys.argv[1])
memory = (ctypes.c_ubyte * 64)()
plain = ctypes.addressof(memory)


def pointer_attributes() -> tuple[Any, ...]:
    """The record was an argument before hip-python 10."""
    try:
        answer: tuple[Any, ...] = hip.hipPointerGetAttributes(plain)
    except TypeError:
        answer = hip.hipPointerGetAttributes(hip.hipPointerAttribute_t(), plain)
    return answer


CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "RuntimeGetVersion": lambda: hip.hipRuntimeGetVersion(),
    "DriverGetVersion": lambda: hip.hipDriverGetVersion(),
    "GetDeviceCount": lambda: hip.hipGetDeviceCount(),
    "GetDevice": lambda: hip.hipGetDevice(),
    "SetDevice": lambda: hip.hipSetDevice(0),
    "DeviceSynchronize": lambda: hip.hipDeviceSynchronize(),
    "DeviceGetAttribute": lambda: hip.hipDeviceGetAttribute(hip.hipDeviceAttribute_t.hipDeviceAttributeWarpSize, 0),
    "DeviceGetLimit": lambda: hip.hipDeviceGetLimit(hip.hipLimit_t.hipLimitMallocHeapSize),
    "DeviceCanAccessPeer": lambda: hip.hipDeviceCanAccessPeer(0, 1),
    "DeviceEnablePeerAccess": lambda: hip.hipDeviceEnablePeerAccess(1, 0),
    "DeviceDisablePeerAccess": lambda: hip.hipDeviceDisablePeerAccess(1),
    "DeviceGetStreamPriorityRange": lambda: hip.hipDeviceGetStreamPriorityRange(),
    "MemGetInfo": lambda: hip.hipMemGetInfo(),
    "Malloc": lambda: hip.hipMalloc(64),
    "Free": lambda: hip.hipFree(plain),
    "MallocPitch": lambda: hip.hipMallocPitch(64, 64),
    "MallocManaged": lambda: hip.hipMallocManaged(64, 1),
    "HostMalloc": lambda: hip.hipHostMalloc(64, 0),
    "HostFree": lambda: hip.hipHostFree(plain),
    "HostRegister": lambda: hip.hipHostRegister(plain, 64, 0),
    "HostUnregister": lambda: hip.hipHostUnregister(plain),
    "HostGetDevicePointer": lambda: hip.hipHostGetDevicePointer(plain, 0),
    "HostGetFlags": lambda: hip.hipHostGetFlags(plain),
    "PointerGetAttributes": pointer_attributes,
    "MallocAsync": lambda: hip.hipMallocAsync(64, None),
    "FreeAsync": lambda: hip.hipFreeAsync(plain, None),
    "DeviceGetDefaultMemPool": lambda: hip.hipDeviceGetDefaultMemPool(0),
    "DeviceGetMemPool": lambda: hip.hipDeviceGetMemPool(0),
    "Memcpy": lambda: hip.hipMemcpy(plain, plain + 32, 32, hip.hipMemcpyKind.hipMemcpyDefault),
    "MemcpyAsync": lambda: hip.hipMemcpyAsync(plain, plain + 32, 32, hip.hipMemcpyKind.hipMemcpyDefault, None),
    "Memset": lambda: hip.hipMemset(plain, 1, 64),
    "MemsetAsync": lambda: hip.hipMemsetAsync(plain, 1, 64, None),
    "MemPrefetchAsync": lambda: hip.hipMemPrefetchAsync(plain, 64, 0, None),
    "MemAdvise": lambda: hip.hipMemAdvise(plain, 64, hip.hipMemoryAdvise.hipMemAdviseSetReadMostly, 0),
    "StreamCreateWithPriority": lambda: hip.hipStreamCreateWithPriority(1, 0),
    "StreamQuery": lambda: hip.hipStreamQuery(None),
    "StreamSynchronize": lambda: hip.hipStreamSynchronize(None),
    "StreamGetFlags": lambda: hip.hipStreamGetFlags(None),
    "StreamGetPriority": lambda: hip.hipStreamGetPriority(None),
    "EventCreateWithFlags": lambda: hip.hipEventCreateWithFlags(2),
}


def main() -> None:
    answers = {}
    for name, call in CALLS.items():
        answers[name] = {"theirs": int(call()[0]), "ours": floor.ask(name.encode(), memory)}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "libamdhip64" in line}
    print(json.dumps({"answers": answers, "libraries": sorted(paths), "memory": bytes(memory).hex()}))


if __name__ == "__main__":
    main()
