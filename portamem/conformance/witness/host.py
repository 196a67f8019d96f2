# SPDX-License-Identifier: MIT
"""The host runtime's witness: its C interface, by ctypes, in the very library that the modules have loaded."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any, ClassVar

from portamem import _libraries
from portamem.conformance.witness.base import ACCESSES, LIMITS, Witness
from portamem.conformance.witness.facts import MemoryKind, PointerFacts, WitnessError, WitnessMissing, error_name
from portamem.conformance.witness.kernels import module_of, warm_up

_NOT_READY = 600
_INVALID_DEVICE_ID = -2
_KINDS: tuple[MemoryKind, ...] = ("unregistered", "host", "device", "managed")
_LIBRARY = re.compile(r"/libportamem\.so[^/]*$")

_POOL_ATTRIBUTES = {
    "reuse_follow_event_dependencies": 1,
    "reuse_allow_opportunistic": 2,
    "reuse_allow_internal_dependencies": 3,
    "release_threshold": 4,
    "reserved_current": 5,
    "reserved_high": 6,
    "used_current": 7,
    "used_high": 8,
}
_RANGE_ATTRIBUTES = {"read_mostly": 1, "preferred_location": 2, "last_prefetch_location": 4}
_ACCESSED_BY = 3
_IS_LEGACY_IPC_CAPABLE = 0
_A_DEVICE = 1
_DEVICE_ATTRIBUTES = {
    "multi_processor_count": 0,
    "warp_size": 1,
    "compute_capability_major": 2,
    "compute_capability_minor": 3,
    "integrated": 7,
    "can_map_host_memory": 8,
    "unified_addressing": 9,
    "managed_memory": 10,
    "concurrent_managed_access": 11,
    "pageable_memory_access": 12,
    "uses_host_page_tables": 13,
    "direct_managed_access": 14,
    "memory_pools": 15,
    "host_register": 16,
    "registered_pointer_is_device_pointer": 17,
    "stream_priorities": 18,
    "virtual_memory": 19,
    "direct_host_access": 20,
}


class _PointerAttributes(ctypes.Structure):
    _fields_: ClassVar = [
        ("type", c_int),
        ("device", c_int),
        ("base", c_void_p),
        ("size", c_size_t),
        ("devicePointer", c_void_p),
        ("hostPointer", c_void_p),
        ("flags", c_uint),
    ]


class _Location(ctypes.Structure):
    _fields_: ClassVar = [("type", c_int), ("id", c_int)]


_POINTS_TO_INT = ctypes.POINTER(c_int)
_POINTS_TO_SIZE = ctypes.POINTER(c_size_t)
_POINTS_TO_POINTER = ctypes.POINTER(c_void_p)

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "RuntimeGetVersion": (_POINTS_TO_INT,),
    "GetDeviceCount": (_POINTS_TO_INT,),
    "GetDevice": (_POINTS_TO_INT,),
    "SetDevice": (c_int,),
    "DeviceGetAttribute": (_POINTS_TO_INT, c_int, c_int),
    "DeviceGetUuid": (c_void_p, c_int),
    "DeviceGetPCIBusId": (c_void_p, c_int, c_int),
    "DeviceCanAccessPeer": (_POINTS_TO_INT, c_int, c_int),
    "MemGetInfo": (_POINTS_TO_SIZE, _POINTS_TO_SIZE),
    "DeviceGetLimit": (_POINTS_TO_SIZE, c_int),
    "DeviceSetLimit": (c_int, c_size_t),
    "DeviceSynchronize": (),
    "PeekAtLastError": (),
    "PointerGetAttributes": (ctypes.POINTER(_PointerAttributes), c_void_p),
    "PointerGetAttribute": (_POINTS_TO_INT, c_int, c_void_p),
    "HostGetFlags": (ctypes.POINTER(c_uint), c_void_p),
    "MemRangeGetAttribute": (c_void_p, c_size_t, c_int, c_void_p, c_size_t),
    "DeviceGetDefaultMemPool": (_POINTS_TO_POINTER, c_int),
    "DeviceGetMemPool": (_POINTS_TO_POINTER, c_int),
    "MemPoolGetAttribute": (c_void_p, c_int, ctypes.POINTER(c_uint64)),
    "MemPoolSetAttribute": (c_void_p, c_int, c_uint64),
    "MemPoolGetAccess": (_POINTS_TO_INT, c_void_p, _Location),
    "StreamGetPriority": (c_void_p, _POINTS_TO_INT),
    "StreamQuery": (c_void_p,),
    "EventQuery": (c_void_p,),
    "Malloc": (_POINTS_TO_POINTER, c_size_t),
    "Free": (c_void_p,),
    "HostMalloc": (_POINTS_TO_POINTER, c_size_t, c_uint),
    "HostFree": (c_void_p,),
    "Memcpy": (c_void_p, c_void_p, c_size_t, c_int),
    "LaunchKernel": (c_void_p, c_uint, c_uint, ctypes.POINTER(c_uint64), c_size_t, c_uint, c_void_p),
}

_COPY_DEFAULT = 4
_PORTABLE = 1
_USES_HEAP = 1


class _Runtime:
    """The host runtime's functions, by their names without the prefix. A failing call raises WitnessError."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._functions = {}
        for name, types in _FUNCTIONS.items():
            function = getattr(library, f"pmh{name}")
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function

    def answer(self, name: str, *arguments: Any) -> int:
        """The error number of a call."""
        code: int = self._functions[name](*arguments)
        return code

    def call(self, name: str, *arguments: Any) -> None:
        code = self.answer(name, *arguments)
        if code != 0:
            raise WitnessError(f"pmh{name}", code, error_name(code))

    def integer(self, name: str, *arguments: Any) -> int:
        """The int that a call stores where its first argument points to."""
        value = c_int()
        self.call(name, byref(value), *arguments)
        return value.value

    def address(self, name: str, *arguments: Any) -> int:
        value = c_void_p()
        self.call(name, byref(value), *arguments)
        return value.value or 0


@cache
def _runtime() -> _Runtime:
    import portamem.host  # noqa: F401 - loads the library

    paths = _libraries.loaded(_LIBRARY)
    if not paths:
        raise WitnessMissing("libportamem is not among the libraries of this process: /proc/self/maps cannot be read")
    return _Runtime(paths[0])


@cache
def _kernels() -> dict[str, int]:
    """Addresses of the compiled kernels. They are no part of any backend."""
    from portamem import _knobs

    return _knobs.kernels()


class HostWitness(Witness):
    BLOCKS = 4
    THREADS = 1

    def __init__(self, backend: str, ordinal: int) -> None:
        super().__init__(backend, ordinal)
        self._rt = _runtime()
        self._loaded: set[str] = set()

    @property
    def name(self) -> str:
        version = self._rt.integer("RuntimeGetVersion")
        return f"libportamem {version // 1000}.{version % 1000 // 10}.{version % 10} by ctypes"

    def device_count(self) -> int:
        return self._rt.integer("GetDeviceCount")

    def current_device(self) -> int | None:
        return self._rt.integer("GetDevice")

    @contextmanager
    def context(self) -> Iterator[None]:
        before = self.current_device()
        self._rt.call("SetDevice", self.ordinal)
        try:
            yield
        finally:
            self._rt.call("SetDevice", before)

    def device_attribute(self, name: str) -> int | None:
        return self._rt.integer("DeviceGetAttribute", _DEVICE_ATTRIBUTES[name], self.ordinal)

    def uuid(self) -> str:
        uuid = (ctypes.c_ubyte * 16)()
        self._rt.call("DeviceGetUuid", uuid, self.ordinal)
        return bytes(uuid).hex()

    def pci_address(self) -> str:
        text = ctypes.create_string_buffer(32)
        self._rt.call("DeviceGetPCIBusId", text, len(text), self.ordinal)
        return text.value.decode().lower()

    def can_access_peer(self, peer: int) -> bool:
        return self._rt.integer("DeviceCanAccessPeer", self.ordinal, peer) != 0

    def memory_info(self) -> tuple[int, int]:
        free, total = c_size_t(), c_size_t()
        with self.context():
            self._rt.call("MemGetInfo", byref(free), byref(total))
        return free.value, total.value

    def limit(self, name: str) -> int:
        value = c_size_t()
        with self.context():
            self._rt.call("DeviceGetLimit", byref(value), LIMITS.index(name))
        return value.value

    def set_limit(self, name: str, nbytes: int) -> str | None:
        with self.context():
            code = self._rt.answer("DeviceSetLimit", LIMITS.index(name), nbytes)
        return error_name(code) if code else None

    def synchronize(self) -> None:
        with self.context():
            self._rt.call("DeviceSynchronize")

    def last_error(self) -> int | None:
        return self._rt.answer("PeekAtLastError")

    def _attributes(self, address: int) -> _PointerAttributes:
        attributes = _PointerAttributes()
        self._rt.call("PointerGetAttributes", byref(attributes), address)
        return attributes

    def pointer(self, address: int) -> PointerFacts:
        found = self._attributes(address)
        device_id = None if found.device == _INVALID_DEVICE_ID else found.device
        return PointerFacts(_KINDS[found.type], device_id, found.hostPointer, found.devicePointer)

    def address_range(self, address: int) -> tuple[int, int] | None:
        found = self._attributes(address)
        return (found.base, found.size) if found.base else None

    def host_flags(self, address: int) -> int | None:
        flags = c_uint()
        code = self._rt.answer("HostGetFlags", byref(flags), address)
        return None if code else flags.value

    def range_attribute(self, address: int, nbytes: int, name: str) -> int | None:
        value = c_int()
        self._rt.call(
            "MemRangeGetAttribute", byref(value), ctypes.sizeof(value), _RANGE_ATTRIBUTES[name], address, nbytes
        )
        return None if value.value == _INVALID_DEVICE_ID else value.value

    def accessed_by(self, address: int, nbytes: int, most: int) -> list[int]:
        found = (c_int * most)()
        self._rt.call("MemRangeGetAttribute", found, ctypes.sizeof(found), _ACCESSED_BY, address, nbytes)
        return [ordinal for ordinal in found if ordinal != _INVALID_DEVICE_ID]

    def gives_ipc_handle(self, address: int) -> bool:
        """The runtime has no call for handles, and says so of each pointer."""
        return self._rt.integer("PointerGetAttribute", _IS_LEGACY_IPC_CAPABLE, address) != 0

    def default_pool(self) -> int:
        return self._rt.address("DeviceGetDefaultMemPool", self.ordinal)

    def current_pool(self) -> int:
        return self._rt.address("DeviceGetMemPool", self.ordinal)

    def pool_attribute(self, pool: int, name: str) -> int:
        value = c_uint64()
        self._rt.call("MemPoolGetAttribute", pool, _POOL_ATTRIBUTES[name], byref(value))
        return value.value

    def set_pool_attribute(self, pool: int, name: str, value: int) -> str | None:
        code = self._rt.answer("MemPoolSetAttribute", pool, _POOL_ATTRIBUTES[name], value)
        return error_name(code) if code else None

    def pool_access(self, pool: int, ordinal: int) -> str:
        return ACCESSES[self._rt.integer("MemPoolGetAccess", pool, _Location(_A_DEVICE, ordinal))]

    def stream_priority(self, stream: int) -> int:
        value = c_int()
        self._rt.call("StreamGetPriority", stream, byref(value))
        return value.value

    def _is_done(self, name: str, handle: int) -> bool:
        with self.context():
            code = self._rt.answer(name, handle)
        if code not in (0, _NOT_READY):
            raise WitnessError(f"pmh{name}", code, error_name(code))
        return code == 0

    def stream_is_done(self, stream: int) -> bool:
        return self._is_done("StreamQuery", stream)

    def event_is_done(self, event: int) -> bool:
        return self._is_done("EventQuery", event)

    def malloc(self, nbytes: int) -> int:
        with self.context():
            return self._rt.address("Malloc", nbytes)

    def free(self, address: int) -> None:
        self._rt.call("Free", address)

    def host_malloc(self, nbytes: int) -> int:
        with self.context():
            return self._rt.address("HostMalloc", nbytes, _PORTABLE)

    def host_free(self, address: int) -> None:
        self._rt.call("HostFree", address)

    def _copy(self, dst: int, src: int, nbytes: int) -> None:
        with self.context():
            self._rt.call("Memcpy", dst, src, nbytes, _COPY_DEFAULT)

    @property
    def has_aligned_heap(self) -> bool:
        return True

    def load(self, module: str) -> None:
        if module not in self._loaded:
            warm_up(self, module)
            self._loaded.add(module)

    def launch(self, kernel: str, stream: int, blocks: int, threads: int, *arguments: int) -> None:
        words = (c_uint64 * len(arguments))(*arguments)
        flags = _USES_HEAP if module_of(kernel) == "heap" else 0
        with self.context():
            self._rt.call("LaunchKernel", _kernels()[kernel], blocks, threads, words, len(arguments), flags, stream)
