# SPDX-License-Identifier: MIT
"""The witness on AMD's runtime: hip-python, releases 6.2 to 10, and kernels by hiprtc.

hip-python loads the libamdhip64 of the process. Its enums are those of its own release, so that numbers that changed
between majors of HIP are read by the runtime's version and never by name.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import metadata
from typing import Any

from portamem import _libraries
from portamem.conformance.kit.outcome import NoWitness
from portamem.conformance.witness import hiprtc
from portamem.conformance.witness.base import ACCESSES, Witness
from portamem.conformance.witness.facts import MemoryKind, PointerFacts, WitnessError, WitnessMissing, error_name
from portamem.conformance.witness.kernels import KERNELS, module_of, warm_up
from portamem.conformance.witness.nvrtc import CompileError

_INVALID_DEVICE_ID = -2
_NOT_READY = 600
_NOT_SUPPORTED = 801
_NO_DEVICE = (100, 101)
_PORTABLE_MAPPED_COHERENT = 0x40000003

_KINDS_BEFORE_6: dict[int, MemoryKind] = {0: "host", 1: "device", 2: "device", 3: "managed", 4: "managed"}
_KINDS: dict[int, MemoryKind] = {
    0: "unregistered",
    1: "host",
    2: "device",
    3: "managed",
    10: "device",
    11: "managed",
}
"""hipMemoryType as the runtime numbers it: 5.x has host, device, array, unified and managed, 6 and later CUDA's."""

_POOL_ATTRIBUTES = {
    "release_threshold": "hipMemPoolAttrReleaseThreshold",
    "reserved_current": "hipMemPoolAttrReservedMemCurrent",
    "reserved_high": "hipMemPoolAttrReservedMemHigh",
    "used_current": "hipMemPoolAttrUsedMemCurrent",
    "used_high": "hipMemPoolAttrUsedMemHigh",
    "reuse_follow_event_dependencies": "hipMemPoolReuseFollowEventDependencies",
    "reuse_allow_opportunistic": "hipMemPoolReuseAllowOpportunistic",
    "reuse_allow_internal_dependencies": "hipMemPoolReuseAllowInternalDependencies",
}
_RANGE_ATTRIBUTES = {
    "read_mostly": "hipMemRangeAttributeReadMostly",
    "preferred_location": "hipMemRangeAttributePreferredLocation",
    "last_prefetch_location": "hipMemRangeAttributeLastPrefetchLocation",
}
_LIMITS = {
    "stack_size": "hipLimitStackSize",
    "printf_fifo_size": "hipLimitPrintfFifoSize",
    "malloc_heap_size": "hipLimitMallocHeapSize",
}
_DEVICE_ATTRIBUTES = {
    "memory_pools": "hipDeviceAttributeMemoryPoolsSupported",
    "managed_memory": "hipDeviceAttributeManagedMemory",
    "concurrent_managed_access": "hipDeviceAttributeConcurrentManagedAccess",
    "pageable_memory_access": "hipDeviceAttributePageableMemoryAccess",
    "uses_host_page_tables": "hipDeviceAttributePageableMemoryAccessUsesHostPageTables",
    "direct_managed_access": "hipDeviceAttributeDirectManagedMemAccessFromHost",
    "direct_host_access": "hipDeviceAttributeIsLargeBar",
    "integrated": "hipDeviceAttributeIntegrated",
    "can_map_host_memory": "hipDeviceAttributeCanMapHostMemory",
    "unified_addressing": "hipDeviceAttributeUnifiedAddressing",
    "host_register": "hipDeviceAttributeHostRegisterSupported",
    "registered_pointer_is_device_pointer": "hipDeviceAttributeCanUseHostPointerForRegisteredMem",
    "stream_priorities": "hipDeviceAttributeStreamPrioritiesSupported",
    "virtual_memory": "hipDeviceAttributeVirtualMemoryManagementSupported",
    "multi_processor_count": "hipDeviceAttributeMultiprocessorCount",
    "warp_size": "hipDeviceAttributeWarpSize",
    "compute_capability_major": "hipDeviceAttributeComputeCapabilityMajor",
    "compute_capability_minor": "hipDeviceAttributeComputeCapabilityMinor",
}


@cache
def load_hip_python() -> Any:
    """hip-python's calls: a submodule of ``hip`` up to release 7, a name in it from release 10 on."""
    if importlib.util.find_spec("hip") is None:
        raise WitnessMissing(f"hip-python is not here: {hiprtc.INSTALL} brings it")
    return __import__("hip", fromlist=["hip"]).hip


class AmdWitness(Witness):
    def __init__(self, backend: str, ordinal: int) -> None:
        super().__init__(backend, ordinal)
        self.hip = load_hip_python()
        try:
            self.hip.hipGetDeviceCount()
        except RuntimeError as error:
            raise WitnessMissing(
                f"hip-python finds no HIP runtime: {error}. Set ROCM_PATH or LD_LIBRARY_PATH"
            ) from None
        runtimes = _libraries.amd_runtimes()
        if len(runtimes) > 1:
            raise WitnessMissing(_libraries.two_runtimes(runtimes))
        self._functions: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}

    def _answer(self, name: str, *arguments: Any, **named: Any) -> tuple[Any, ...]:
        """Error and values, which are garbage unless the error is success. WitnessError where there is no such call."""
        try:
            answer: tuple[Any, ...] = getattr(self.hip, name)(*arguments, **named)
        except (RuntimeError, AttributeError) as error:
            raise WitnessError(name, _NOT_SUPPORTED, f"no such call in this runtime ({error})") from None
        return answer

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        error, *rest = self._answer(name, *arguments, **named)
        if int(error) != 0:
            raise WitnessError(name, int(error), error_name(int(error), error.name))
        return rest[0] if len(rest) == 1 else tuple(rest)

    def _asked(self, name: str, *arguments: Any) -> Any:
        """The values of a call; NoWitness where the runtime or this release of hip-python has none."""
        try:
            return self.call(name, *arguments)
        except WitnessError as error:
            if error.code != _NOT_SUPPORTED:
                raise
            raise NoWitness(f"{self.name} cannot be asked: {error}") from None

    def _error(self, name: str, *arguments: Any) -> str | None:
        try:
            error = self._answer(name, *arguments)[0]
        except WitnessError:
            return "NotSupported"
        return error_name(int(error), error.name) if int(error) else None

    @cached_property
    def version(self) -> int:
        """The runtime's, as 10000000 * major + 100000 * minor + patch."""
        return int(self.call("hipRuntimeGetVersion"))

    @property
    def name(self) -> str:
        major, minor = self.version // 10_000_000, self.version // 100_000 % 100
        return f"hip-python {metadata.version('hip-python')}, HIP runtime {major}.{minor}"

    # devices

    def device_count(self) -> int:
        error, count = self._answer("hipGetDeviceCount")
        return int(count) if int(error) == 0 else 0

    def current_device(self) -> int | None:
        error, device = self._answer("hipGetDevice")
        if int(error) in _NO_DEVICE:
            return None
        return int(self.call("hipGetDevice")) if int(error) else int(device)

    @contextmanager
    def context(self) -> Iterator[None]:
        before = int(self.call("hipGetDevice"))
        if before == self.ordinal:
            yield
            return
        self.call("hipSetDevice", self.ordinal)
        try:
            yield
        finally:
            self.call("hipSetDevice", before)

    def device_attribute(self, name: str) -> int | None:
        which = getattr(self.hip.hipDeviceAttribute_t, _DEVICE_ATTRIBUTES[name], None)
        if which is None:
            return None
        error, value = self._answer("hipDeviceGetAttribute", which, self.ordinal)
        if error_name(int(error)) in ("InvalidValue", "NotSupported"):
            return None  # a number of a later release than the runtime's
        return int(self.call("hipDeviceGetAttribute", which, self.ordinal)) if int(error) else int(value)

    def uuid(self) -> str:
        """The bytes as they lie in memory, while the record lives: what it makes of them may end at a zero."""
        record = self._asked("hipDeviceGetUuid", self.ordinal)
        return ctypes.string_at(int(record), 16).hex()

    def pci_address(self) -> str:
        text = bytes(self._asked("hipDeviceGetPCIBusId", 32, self.ordinal))
        return text.split(b"\0")[0].decode().lower()

    def can_access_peer(self, peer: int) -> bool:
        return bool(self.call("hipDeviceCanAccessPeer", self.ordinal, peer))

    def memory_info(self) -> tuple[int, int]:
        with self.context():
            free, total = self.call("hipMemGetInfo")
        return int(free), int(total)

    def limit(self, name: str) -> int:
        with self.context():
            return int(self.call("hipDeviceGetLimit", getattr(self.hip.hipLimit_t, _LIMITS[name])))

    def set_limit(self, name: str, nbytes: int) -> str | None:
        try:
            with self.context():
                return self._error("hipDeviceSetLimit", getattr(self.hip.hipLimit_t, _LIMITS[name]), nbytes)
        except WitnessError as error:
            return error.name  # there is no device

    def synchronize(self) -> None:
        with self.context():
            self.call("hipDeviceSynchronize")

    def last_error(self) -> int | None:
        """The last error of the process's one runtime. Before HIP 7 a call that succeeds clears it: nothing is called
        first."""
        return int(self._answer("hipPeekAtLastError")[0])

    # memory

    def _attributes(self, address: int) -> Any:
        """The record of an address, or None for one that the runtime does not know. Before release 10 of hip-python
        the caller brings the record."""
        try:
            error, *rest = self._answer("hipPointerGetAttributes", address)
            record = rest[0] if rest else None
        except TypeError:
            record = self.hip.hipPointerAttribute_t()
            (error, *_) = self._answer("hipPointerGetAttributes", record, address)
        return None if int(error) != 0 else record

    def pointer(self, address: int) -> PointerFacts:
        found = self._attributes(address)
        if found is None:
            return PointerFacts("unregistered", None, None, None)
        kinds = _KINDS if self.version >= 60_000_000 else _KINDS_BEFORE_6
        kind: MemoryKind = "managed" if found.isManaged else kinds[self._type_number(found)]
        return PointerFacts(
            kind,
            None if int(found.device) == _INVALID_DEVICE_ID else int(found.device),
            int(found.hostPointer or 0) or None,
            int(found.devicePointer or 0) or None,
        )

    @staticmethod
    def _type_number(record: Any) -> int:
        """The first member of the record as it lies in memory: its enum is of hip-python's release."""
        return ctypes.c_int.from_address(int(record)).value

    def address_range(self, address: int) -> tuple[int, int] | None:
        with self.context():
            error, base, nbytes = self._answer("hipMemGetAddressRange", address)
        return None if int(error) != 0 else (int(base), int(nbytes))

    def host_flags(self, address: int) -> int | None:
        with self.context():
            error, flags = self._answer("hipHostGetFlags", address)
        return None if int(error) != 0 else int(flags)

    def range_attribute(self, address: int, nbytes: int, name: str) -> int | None:
        value = ctypes.c_int32()
        which = getattr(self.hip.hipMemRangeAttribute, _RANGE_ATTRIBUTES[name])
        with self.context():
            self.call("hipMemRangeGetAttribute", ctypes.addressof(value), 4, which, address, nbytes)
        return None if value.value == _INVALID_DEVICE_ID else value.value

    def accessed_by(self, address: int, nbytes: int, most: int) -> list[int]:
        found = (ctypes.c_int32 * most)()
        which = self.hip.hipMemRangeAttribute.hipMemRangeAttributeAccessedBy
        with self.context():
            self._asked("hipMemRangeGetAttribute", ctypes.addressof(found), 4 * most, which, address, nbytes)
        return [ordinal for ordinal in found if ordinal != _INVALID_DEVICE_ID]

    def gives_ipc_handle(self, address: int) -> bool:
        with self.context():
            error = self._answer("hipIpcGetMemHandle", address)[0]
            self._answer("hipGetLastError")
        return int(error) == 0

    def default_pool(self) -> int:
        return int(self.call("hipDeviceGetDefaultMemPool", self.ordinal))

    def current_pool(self) -> int:
        return int(self.call("hipDeviceGetMemPool", self.ordinal))

    def pool_attribute(self, pool: int, name: str) -> int:
        which = getattr(self.hip.hipMemPoolAttr, _POOL_ATTRIBUTES[name])
        value = ctypes.c_int32() if name.startswith("reuse_") else ctypes.c_uint64()
        self.call("hipMemPoolGetAttribute", pool, which, ctypes.addressof(value))
        return value.value

    def set_pool_attribute(self, pool: int, name: str, value: int) -> str | None:
        which = getattr(self.hip.hipMemPoolAttr, _POOL_ATTRIBUTES[name])
        typed = ctypes.c_int32(value) if name.startswith("reuse_") else ctypes.c_uint64(value)
        return self._error("hipMemPoolSetAttribute", pool, which, ctypes.addressof(typed))

    def pool_access(self, pool: int, ordinal: int) -> str:
        """The access, for which the caller brings the number before release 7 of hip-python."""
        where = self.hip.hipMemLocation()
        where.type, where.id = self.hip.hipMemLocationType.hipMemLocationTypeDevice, ordinal
        try:
            flags = int(self._asked("hipMemPoolGetAccess", pool, where))
        except TypeError:
            value = ctypes.c_int32()
            self._asked("hipMemPoolGetAccess", ctypes.addressof(value), pool, where)
            flags = value.value
        return ACCESSES[flags]

    # streams and events

    def stream_priority(self, stream: int) -> int:
        with self.context():
            return int(self._asked("hipStreamGetPriority", stream))

    def _is_done(self, call: str, handle: int) -> bool:
        with self.context():
            code = int(self._answer(call, handle)[0])
            if code not in (0, _NOT_READY):
                raise WitnessError(call, code, error_name(code))
        return code == 0

    def stream_is_done(self, stream: int) -> bool:
        return self._is_done("hipStreamQuery", stream)

    def event_is_done(self, event: int) -> bool:
        return self._is_done("hipEventQuery", event)

    # memory of the witness's own

    def malloc(self, nbytes: int) -> int:
        with self.context():
            return int(self.call("hipMalloc", nbytes))

    def free(self, address: int) -> None:
        with self.context():
            self.call("hipFree", address)

    def host_malloc(self, nbytes: int) -> int:
        with self.context():
            address = int(self.call("hipHostMalloc", nbytes, _PORTABLE_MAPPED_COHERENT))
        ctypes.memset(address, 0, nbytes)
        return address

    def host_free(self, address: int) -> None:
        with self.context():
            self.call("hipHostFree", address)

    def _copy(self, dst: int, src: int, nbytes: int) -> None:
        with self.context():
            self.call("hipMemcpy", dst, src, nbytes, self.hip.hipMemcpyKind.hipMemcpyDefault)

    # kernels

    @cached_property
    def why_no_kernels(self) -> str:
        """Compiles and runs the first module to find out: a stand-in of the runtime has no kernels."""
        if self.device_count() == 0:
            return "there is no AMD GPU that hip-python could use"
        try:
            self._load("memory")
        except (WitnessError, WitnessMissing, CompileError) as error:
            return f"kernels do not run here: {error}"
        return ""

    @cached_property
    def arch(self) -> str:
        """The architecture, such as gfx90a:sramecc+:xnack-. Before release 10 of hip-python the caller brings the
        record."""
        try:
            properties = self.call("hipGetDeviceProperties", self.ordinal)
        except TypeError:
            properties = self.hip.hipDeviceProp_t()
            self.call("hipGetDeviceProperties", properties, self.ordinal)
        name: str | bytes = properties.gcnArchName  # text from release 10 on
        return (name.decode() if isinstance(name, bytes) else name).partition("\0")[0]

    def latch_ticks(self, seconds: float) -> int:
        which = getattr(self.hip.hipDeviceAttribute_t, "hipDeviceAttributeWallClockRate", None)
        error, kilohertz = (1, 0) if which is None else self._answer("hipDeviceGetAttribute", which, self.ordinal)
        return int(seconds * 1000 * (kilohertz if int(error) == 0 and kilohertz else 100_000))

    def load(self, module: str) -> None:
        if self.why_no_kernels:
            raise WitnessMissing(self.why_no_kernels)
        self._load(module)

    def _load(self, module: str) -> None:
        if module in self._modules:
            return
        code = hiprtc.compiled(module, self.arch)
        with self.context():
            loaded = self.call("hipModuleLoadData", code)
            try:
                for name in KERNELS[module]:
                    self._functions[name] = self.call("hipModuleGetFunction", loaded, name.encode())
                warm_up(self, module)
            except WitnessError:
                self._functions = {n: f for n, f in self._functions.items() if n not in KERNELS[module]}
                self.call("hipModuleUnload", loaded)
                raise
        self._modules[module] = loaded

    def launch(self, kernel: str, stream: int, blocks: int, threads: int, *arguments: int) -> None:
        if kernel not in self._functions:
            self.load(module_of(kernel))
        types = KERNELS[module_of(kernel)][kernel]
        extra = tuple(kind(value) for kind, value in zip(types, arguments, strict=True))
        grid, block = (blocks, 1, 1), (threads, 1, 1)
        with self.context():
            self.call(
                *("hipModuleLaunchKernel", self._functions[kernel], *grid, *block),
                sharedMemBytes=0,
                stream=stream,
                kernelParams=None,
                extra=extra,
            )
