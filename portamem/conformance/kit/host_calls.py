# SPDX-License-Identifier: MIT
"""The CPU runtime's C interface (portamem/host/runtime_api.h), called as a C program calls it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, ClassVar, TypeVar

from portamem import _libraries
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect_equal
from portamem.conformance.kit.outcome import Failed, NotShown

INVALID_VALUE, OUT_OF_MEMORY, INVALID_DIRECTION, INVALID_DEVICE, UNSUPPORTED_LIMIT = 1, 2, 21, 101, 215
PEER_UNSUPPORTED, INVALID_HANDLE, NOT_READY, NOT_REGISTERED, NOT_SUPPORTED = 217, 400, 600, 713, 801
DEFAULT_DIRECTION, LEGACY, HUGE, NOBODY = 4, 1, 2**64 - 8, 0x10


class Location(ctypes.Structure):
    _fields_: ClassVar = [("type", c_int), ("id", c_int)]


class PoolProps(ctypes.Structure):
    _fields_: ClassVar = [("location", Location), ("max_size", c_size_t)]


class Position(ctypes.Structure):
    _fields_: ClassVar = [("x", c_size_t), ("y", c_size_t), ("z", c_size_t)]


class Volume(ctypes.Structure):
    _fields_: ClassVar = [("ptr", c_void_p), ("pitch", c_size_t), ("width", c_size_t), ("height", c_size_t)]


class Copy3D(ctypes.Structure):
    _fields_: ClassVar = [
        ("src", Volume),
        ("src_at", Position),
        ("dst", Volume),
        ("dst_at", Position),
        ("extent", Position),
        ("kind", c_int),
    ]


DEVICE, CPU, NOWHERE = Location(1, 0), Location(2, 0), Location(9, 0)

_TYPES: dict[str, Any] = {"p": c_void_p, "z": c_size_t, "i": c_int, "u": c_uint, "q": c_uint64, "L": Location}
_TYPES["s"] = c_char_p

_SIGNATURES = {
    "RuntimeGetVersion": "p",
    "GetLastError": "",
    "PeekAtLastError": "",
    "GetDeviceCount": "p",
    "SetDevice": "i",
    "GetDevice": "p",
    "DeviceGetAttribute": "pii",
    "GetDeviceProperties": "pi",
    "DeviceGetUuid": "pi",
    "DeviceGetPCIBusId": "pii",
    "MemGetInfo": "pp",
    "DeviceGetLimit": "pi",
    "DeviceSetLimit": "iz",
    "DeviceSynchronize": "",
    "DeviceCanAccessPeer": "pii",
    "DeviceEnablePeerAccess": "iu",
    "DeviceDisablePeerAccess": "i",
    "DeviceGetStreamPriorityRange": "pp",
    "Malloc": "pz",
    "Free": "p",
    "MallocPitch": "ppzz",
    "ExtMallocWithFlags": "pzu",
    "HostMalloc": "pzu",
    "HostFree": "p",
    "HostRegister": "pzu",
    "HostUnregister": "p",
    "HostGetDevicePointer": "ppu",
    "HostGetFlags": "pp",
    "PointerGetAttributes": "pp",
    "PointerGetAttribute": "pip",
    "MallocManaged": "pzu",
    "MemPrefetchAsync": "pzLup",
    "MemAdvise": "pziL",
    "MemRangeGetAttribute": "pzipz",
    "StreamAttachMemAsync": "ppzu",
    "MallocAsync": "pzp",
    "FreeAsync": "pp",
    "MallocFromPoolAsync": "pzpp",
    "MemPoolCreate": "pp",
    "MemPoolDestroy": "p",
    "MemPoolTrimTo": "pz",
    "MemPoolSetAttribute": "piq",
    "MemPoolGetAttribute": "pip",
    "MemPoolSetAccess": "pLi",
    "MemPoolGetAccess": "ppL",
    "DeviceGetDefaultMemPool": "pi",
    "DeviceGetMemPool": "pi",
    "DeviceSetMemPool": "ip",
    "Memcpy": "ppzi",
    "MemcpyAsync": "ppzip",
    "Memcpy2D": "pzpzzzi",
    "Memcpy2DAsync": "pzpzzzip",
    "Memcpy3D": "p",
    "Memcpy3DAsync": "pp",
    "MemcpyPeer": "pipiz",
    "MemcpyPeerAsync": "pipizp",
    "Memset": "piz",
    "MemsetAsync": "pizp",
    "Memset2D": "pzizz",
    "StreamCreateWithPriority": "pui",
    "StreamDestroy": "p",
    "StreamQuery": "p",
    "StreamSynchronize": "p",
    "StreamWaitEvent": "ppu",
    "LaunchHostFunc": "ppp",
    "StreamGetFlags": "pp",
    "StreamGetPriority": "pp",
    "StreamGetDevice": "pp",
    "StreamGetId": "pp",
    "EventCreateWithFlags": "pu",
    "EventDestroy": "p",
    "EventRecord": "pp",
    "EventQuery": "p",
    "EventSynchronize": "p",
    "EventElapsedTime": "ppp",
    "StreamBeginCapture": "pi",
    "StreamEndCapture": "pp",
    "StreamIsCapturing": "pp",
    "ThreadExchangeStreamCaptureMode": "p",
    "GraphGetNodeCount": "pp",
    "GraphDestroy": "p",
    "MemGetAllocationGranularity": "pLi",
    "MemAddressReserve": "pzzp",
    "MemAddressFree": "pz",
    "MemCreate": "pzL",
    "MemRelease": "p",
    "MemMap": "pzzp",
    "MemUnmap": "pz",
    "MemSetAccess": "pzLi",
    "MemGetAccess": "pLp",
    "Memset2DAsync": "pzizzp",
    "LaunchKernel": "puupzup",
    "KnobSetCapacity": "iz",
    "KnobSetCopyDelay": "u",
    "KnobFailCall": "sui",
    "KnobReset": "",
}
"""Parameters: p pointer or handle, z size_t, i int, u unsigned, q uint64_t, L location, s text."""

_TEXTS = {"GetErrorString": "i", "GetErrorDetail": "i", "GetLastErrorDetail": ""}
"""Functions that answer a text."""

_FOR_KERNELS = {"KernelAddress": "pz", "KernelMalloc": "z", "KernelMallocAligned": "zz", "KernelFree": "p"}
"""Functions that kernels call, and that answer an address or nothing."""


class Interface:
    """The functions by their names without the prefix, each answering its code."""

    def __init__(self, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> None:
        paths = _libraries.loaded(re.compile(r"/libportamem\.so[^/]*$"))
        if not paths:
            raise NotShown("libportamem is not among the libraries that /proc/self/maps tells of")
        self.library = library = load(paths[0])
        self._functions = {}
        for signatures, answers in ((_SIGNATURES, c_int), (_TEXTS, c_char_p), (_FOR_KERNELS, c_void_p)):
            for name, types in signatures.items():
                function = library[f"pmh{name}"]
                function.argtypes, function.restype = [_TYPES[each] for each in types], answers
                self._functions[name] = function
        self._functions["KernelFree"].restype = None

    def answer(self, name: str, *arguments: Any) -> int:
        code: int = self._functions[name](*arguments)
        return code

    def detail(self) -> str:
        """Why this thread's latest failed call failed."""
        return self.text("GetLastErrorDetail")

    def text(self, name: str, *arguments: Any) -> str:
        """Calls a function that answers a text."""
        said: bytes = self._functions[name](*arguments)
        return said.decode()

    def address(self, name: str, *arguments: Any) -> int | None:
        """Calls a function that is for kernels. None for null, and for the function that answers nothing."""
        found: int | None = self._functions[name](*arguments)
        return found

    def do(self, name: str, *arguments: Any) -> None:
        expect_equal(self.answer(name, *arguments), 0, f"the answer of {name}")

    def get(self, name: str, *arguments: Any, kind: Any = c_void_p) -> Any:
        """Returns the value that a call stores where its first parameter points to."""
        value = kind()
        self.do(name, byref(value), *arguments)
        return value.value


_AnyMachine = TypeVar("_AnyMachine", bound="Machine")


class Machine:
    """One of each thing, made through the interface itself, for the time of a with block."""

    def __init__(self) -> None:
        self.rt = Interface()
        self.rt.do("SetDevice", 0)
        # A call that a knob made fail may have been the one that puts this back.
        self.rt.do("ThreadExchangeStreamCaptureMode", byref(c_int(0)))
        self.stream = self.rt.get("StreamCreateWithPriority", 1, 0)
        self.event, self.timed = self.rt.get("EventCreateWithFlags", 2), self.rt.get("EventCreateWithFlags", 0)
        self.pool = self.rt.get("MemPoolCreate", byref(PoolProps(DEVICE, 0)))
        self.device, self.other = (self.rt.get("Malloc", 4096) for _ in range(2))
        self.managed, self.pinned = self.rt.get("MallocManaged", 4096, 1), self.rt.get("HostMalloc", 4096, 0)
        self.plain = (c_char * 4096)()
        self.out = (c_char * 1024)()

    def things(self) -> Iterator[tuple[str, int]]:
        """Lists the objects that are there, each with the call that destroys it."""
        for memory in (self.device, self.other, self.managed):
            yield "Free", memory
        yield "HostFree", self.pinned
        yield "MemPoolDestroy", self.pool
        for event in (self.event, self.timed):
            yield "EventDestroy", event
        yield "StreamDestroy", self.stream

    def __enter__(self: _AnyMachine) -> _AnyMachine:
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, tb: object) -> None:
        for name, handle in self.things():
            code = self.rt.answer(name, handle)
            if code and exc is None:
                raise Failed(f"{name} of what is in use answers {code}")
        self.rt.answer("GetLastError")


def on_a_machine(
    kind: Callable[[], _AnyMachine],
) -> Callable[[Callable[[Env, _AnyMachine], None]], Callable[[Env], None]]:
    """Makes a check of a function that takes a machine too."""

    def decorated(function: Callable[[Env, _AnyMachine], None]) -> Callable[[Env], None]:
        def run(env: Env) -> None:
            with kind() as machine:
                function(env, machine)

        run.__name__, run.__module__ = function.__name__, function.__module__
        return run

    return decorated
