# SPDX-License-Identifier: MIT
"""The witness on NVIDIA's driver: cuda-python's runtime and driver calls, and kernels by NVRTC.

Its CUDA runtime is one of its own, linked statically. All runtimes of a process sit on one driver and share the
device's primary context, so that pointers, streams, events and pools of one mean the same to the others.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from types import ModuleType
from typing import Any

from portamem.conformance.witness import nvrtc, sources
from portamem.conformance.witness.base import ACCESSES, Witness
from portamem.conformance.witness.facts import MemoryKind, PointerFacts, WitnessError, WitnessMissing, error_name
from portamem.conformance.witness.kernels import KERNELS, module_of, warm_up

_KINDS: tuple[MemoryKind, ...] = ("unregistered", "host", "device", "managed")
_INVALID_DEVICE_ID = -2
_NOT_READY = 600
_INSUFFICIENT_DRIVER = 35

_LIMITS = {
    "stack_size": ("cudaLimitStackSize", "CU_LIMIT_STACK_SIZE"),
    "printf_fifo_size": ("cudaLimitPrintfFifoSize", "CU_LIMIT_PRINTF_FIFO_SIZE"),
    "malloc_heap_size": ("cudaLimitMallocHeapSize", "CU_LIMIT_MALLOC_HEAP_SIZE"),
}
_POOL_ATTRIBUTES = {
    "release_threshold": "cudaMemPoolAttrReleaseThreshold",
    "reserved_current": "cudaMemPoolAttrReservedMemCurrent",
    "reserved_high": "cudaMemPoolAttrReservedMemHigh",
    "used_current": "cudaMemPoolAttrUsedMemCurrent",
    "used_high": "cudaMemPoolAttrUsedMemHigh",
    "reuse_follow_event_dependencies": "cudaMemPoolReuseFollowEventDependencies",
    "reuse_allow_opportunistic": "cudaMemPoolReuseAllowOpportunistic",
    "reuse_allow_internal_dependencies": "cudaMemPoolReuseAllowInternalDependencies",
}
_RANGE_ATTRIBUTES = {
    "read_mostly": "cudaMemRangeAttributeReadMostly",
    "preferred_location": "cudaMemRangeAttributePreferredLocation",
    "last_prefetch_location": "cudaMemRangeAttributeLastPrefetchLocation",
}
_DEVICE_ATTRIBUTES = {
    "memory_pools": "cudaDevAttrMemoryPoolsSupported",
    "managed_memory": "cudaDevAttrManagedMemory",
    "concurrent_managed_access": "cudaDevAttrConcurrentManagedAccess",
    "pageable_memory_access": "cudaDevAttrPageableMemoryAccess",
    "uses_host_page_tables": "cudaDevAttrPageableMemoryAccessUsesHostPageTables",
    "direct_managed_access": "cudaDevAttrDirectManagedMemAccessFromHost",
    "integrated": "cudaDevAttrIntegrated",
    "can_map_host_memory": "cudaDevAttrCanMapHostMemory",
    "unified_addressing": "cudaDevAttrUnifiedAddressing",
    "host_register": "cudaDevAttrHostRegisterSupported",
    "registered_pointer_is_device_pointer": "cudaDevAttrCanUseHostPointerForRegisteredMem",
    "stream_priorities": "cudaDevAttrStreamPrioritiesSupported",
    "multi_processor_count": "cudaDevAttrMultiProcessorCount",
    "warp_size": "cudaDevAttrWarpSize",
    "compute_capability_major": "cudaDevAttrComputeCapabilityMajor",
    "compute_capability_minor": "cudaDevAttrComputeCapabilityMinor",
}
_VIRTUAL_MEMORY = "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"


@cache
def _bindings(name: str) -> ModuleType:
    """``cuda.bindings.<name>``. One that is installed and broken fails with its own error."""
    try:
        found = importlib.util.find_spec(f"cuda.bindings.{name}") is not None
    except ModuleNotFoundError as error:
        if error.name not in ("cuda", "cuda.bindings"):
            raise
        found = False
    if not found:
        raise WitnessMissing(f"cuda-python is not here: {nvrtc.INSTALL} brings it")
    module = importlib.import_module(f"cuda.bindings.{name}")
    if hasattr(module, "hip"):
        raise WitnessMissing(
            "hip-python-interop has overwritten cuda-python's files, so that cuda.bindings calls HIP: that is no "
            "witness of CUDA. Use an environment without it, with cuda-python installed anew"
        )
    return module


def _answer(name: str, *arguments: Any) -> tuple[Any, ...]:
    """Error and values of a call of the runtime's (cuda...) or the driver's (cu...)."""
    module = _bindings("runtime" if name.startswith("cuda") else "driver")
    try:
        answer: tuple[Any, ...] = getattr(module, name)(*arguments)
    except RuntimeError:  # libcuda is not here, or too old to have the call
        raise WitnessError(name, _INSUFFICIENT_DRIVER, error_name(_INSUFFICIENT_DRIVER)) from None
    return answer


def _error(name: str, *arguments: Any) -> str | None:
    """The name of a call's error, None where it succeeds."""
    error = _answer(name, *arguments)[0]
    return error_name(int(error), error.name) if int(error) else None


def _call(name: str, *arguments: Any) -> Any:
    """The values of a call, which must succeed."""
    error, *rest = _answer(name, *arguments)
    if int(error) != 0:
        raise WitnessError(name, int(error), error_name(int(error), error.name))
    return rest[0] if len(rest) == 1 else tuple(rest)


@cache
def _primary_context(ordinal: int) -> Any:
    """Retained for the life of the process: kernels and memory of others are in it."""
    _call("cuInit", 0)
    return _call("cuDevicePrimaryCtxRetain", _call("cuDeviceGet", ordinal))


class NvidiaWitness(Witness):
    def __init__(self, backend: str, ordinal: int) -> None:
        super().__init__(backend, ordinal)
        self.runtime, self.driver = _bindings("runtime"), _bindings("driver")
        self._functions: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}

    @property
    def name(self) -> str:
        version = importlib.import_module("cuda.bindings").__version__
        runtime = _call("cudaRuntimeGetVersion")
        return f"cuda-python {version}, CUDA runtime {runtime // 1000}.{runtime % 1000 // 10}"

    # devices

    def device_count(self) -> int:
        error, count = _answer("cudaGetDeviceCount")
        return int(count) if int(error) == 0 else 0

    def current_device(self) -> int | None:
        """The device as the driver tells it, which all runtimes of the process share."""
        error, context = _answer("cuCtxGetCurrent")
        if int(error) != 0 or not int(context):
            return None  # no thread has used the driver yet, or this one has not
        return int(_call("cuCtxGetDevice"))

    def has_context(self) -> bool | None:
        _call("cuInit", 0)
        _, is_active = _call("cuDevicePrimaryCtxGetState", _call("cuDeviceGet", self.ordinal))
        return bool(is_active)

    @contextmanager
    def context(self) -> Iterator[None]:
        """Makes the context current by the driver's calls: cudaSetDevice, and a call of the runtime that finds no
        context, would leave their mark on the thread."""
        _call("cuCtxPushCurrent", _primary_context(self.ordinal))
        try:
            yield
        finally:
            _call("cuCtxPopCurrent")

    def device_attribute(self, name: str) -> int | None:
        if name == "virtual_memory":
            which = getattr(self.driver.CUdevice_attribute, _VIRTUAL_MEMORY)
            return int(_call("cuDeviceGetAttribute", which, _call("cuDeviceGet", self.ordinal)))
        if name not in _DEVICE_ATTRIBUTES:
            return None
        which = getattr(self.runtime.cudaDeviceAttr, _DEVICE_ATTRIBUTES[name], None)
        return None if which is None else int(_call("cudaDeviceGetAttribute", which, self.ordinal))

    def uuid(self) -> str:
        """The driver's: under MIG that of the slice, which CUDA 12's second version of the call tells."""
        _call("cuInit", 0)
        name = "cuDeviceGetUuid_v2" if hasattr(self.driver, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
        return bytes(_call(name, _call("cuDeviceGet", self.ordinal)).bytes).hex()

    def pci_address(self) -> str:
        text: bytes = _call("cudaDeviceGetPCIBusId", 32, self.ordinal)
        return text.split(b"\0")[0].decode().lower()

    def can_access_peer(self, peer: int) -> bool:
        with self.context():
            return bool(_call("cudaDeviceCanAccessPeer", self.ordinal, peer))

    def memory_info(self) -> tuple[int, int]:
        with self.context():
            free, total = _call("cudaMemGetInfo")
        return int(free), int(total)

    def limit(self, name: str) -> int:
        with self.context():
            return int(_call("cudaDeviceGetLimit", getattr(self.runtime.cudaLimit, _LIMITS[name][0])))

    def set_limit(self, name: str, nbytes: int) -> str | None:
        try:
            with self.context():
                return _error("cudaDeviceSetLimit", getattr(self.runtime.cudaLimit, _LIMITS[name][0]), nbytes)
        except WitnessError as error:
            return error.name  # there is no device

    def driver_limit(self, name: str) -> int | None:
        with self.context():
            return int(_call("cuCtxGetLimit", getattr(self.driver.CUlimit, _LIMITS[name][1])))

    def synchronize(self) -> None:
        with self.context():
            _call("cudaDeviceSynchronize")

    # memory

    def pointer(self, address: int) -> PointerFacts:
        with self.context():
            error, found = _answer("cudaPointerGetAttributes", address)
        if int(error) != 0:
            return PointerFacts("unregistered", None, None, None)
        return PointerFacts(
            _KINDS[int(found.type)],
            None if found.device == _INVALID_DEVICE_ID else int(found.device),
            int(found.hostPointer or 0) or None,
            int(found.devicePointer or 0) or None,
        )

    def address_range(self, address: int) -> tuple[int, int] | None:
        with self.context():
            error, base, nbytes = _answer("cuMemGetAddressRange", address)
        return None if int(error) != 0 else (int(base), int(nbytes))

    def host_flags(self, address: int) -> int | None:
        with self.context():
            error, flags = _answer("cudaHostGetFlags", address)
        return None if int(error) != 0 else int(flags)

    def range_attribute(self, address: int, nbytes: int, name: str) -> int | None:
        which = getattr(self.runtime.cudaMemRangeAttribute, _RANGE_ATTRIBUTES[name])
        with self.context():
            value = int(_call("cudaMemRangeGetAttribute", 4, which, address, nbytes))
        return None if value == _INVALID_DEVICE_ID else value

    def accessed_by(self, address: int, nbytes: int, most: int) -> list[int]:
        which = self.runtime.cudaMemRangeAttribute.cudaMemRangeAttributeAccessedBy
        with self.context():
            found = _call("cudaMemRangeGetAttribute", 4 * most, which, address, nbytes)
        return [int(ordinal) for ordinal in found if ordinal != _INVALID_DEVICE_ID]

    def gives_ipc_handle(self, address: int) -> bool:
        with self.context():
            error = _answer("cudaIpcGetMemHandle", address)[0]
            _answer("cudaGetLastError")
        return int(error) == 0

    def default_pool(self) -> int:
        with self.context():
            return int(_call("cudaDeviceGetDefaultMemPool", self.ordinal))

    def current_pool(self) -> int:
        with self.context():
            return int(_call("cudaDeviceGetMemPool", self.ordinal))

    def pool_attribute(self, pool: int, name: str) -> int:
        which = getattr(self.runtime.cudaMemPoolAttr, _POOL_ATTRIBUTES[name])
        with self.context():
            return int(_call("cudaMemPoolGetAttribute", pool, which))

    def set_pool_attribute(self, pool: int, name: str, value: int) -> str | None:
        which = getattr(self.runtime.cudaMemPoolAttr, _POOL_ATTRIBUTES[name])
        typed = value if name.startswith("reuse_") else self.driver.cuuint64_t(value)
        with self.context():
            return _error("cudaMemPoolSetAttribute", pool, which, typed)

    def pool_access(self, pool: int, ordinal: int) -> str:
        where = self.runtime.cudaMemLocation()
        where.type, where.id = self.runtime.cudaMemLocationType.cudaMemLocationTypeDevice, ordinal
        with self.context():
            return ACCESSES[int(_call("cudaMemPoolGetAccess", pool, where))]

    # streams and events

    def stream_priority(self, stream: int) -> int:
        with self.context():
            return int(_call("cudaStreamGetPriority", stream))

    def _is_done(self, call: str, handle: int) -> bool:
        with self.context():
            error = _answer(call, handle)[0]
        if int(error) not in (0, _NOT_READY):
            raise WitnessError(call, int(error), error_name(int(error), error.name))
        return int(error) == 0

    def stream_is_done(self, stream: int) -> bool:
        return self._is_done("cudaStreamQuery", stream)

    def event_is_done(self, event: int) -> bool:
        return self._is_done("cudaEventQuery", event)

    # memory of the witness's own

    def malloc(self, nbytes: int) -> int:
        with self.context():
            return int(_call("cudaMalloc", nbytes))

    def free(self, address: int) -> None:
        with self.context():
            _call("cudaFree", address)

    def host_malloc(self, nbytes: int) -> int:
        flags = self.runtime.cudaHostAllocPortable | self.runtime.cudaHostAllocMapped
        with self.context():
            address = int(_call("cudaHostAlloc", nbytes, flags))
        ctypes.memset(address, 0, nbytes)
        return address

    def host_free(self, address: int) -> None:
        with self.context():
            _call("cudaFreeHost", address)

    def _copy(self, dst: int, src: int, nbytes: int) -> None:
        with self.context():
            _call("cudaMemcpy", dst, src, nbytes, self.runtime.cudaMemcpyKind.cudaMemcpyDefault)

    # kernels

    @cached_property
    def why_no_kernels(self) -> str:
        """Loads the first module to find out. One that does not compile or run is no reason, but an error."""
        if self.device_count() == 0:
            return "there is no NVIDIA GPU that cuda-python could use"
        try:
            supported = nvrtc.architectures()
        except WitnessMissing as error:
            return error.reason
        if self.arch not in supported:
            return f"this NVRTC does not compile for sm_{self.arch}"
        self._load("memory")
        return ""

    @property
    def has_aligned_heap(self) -> bool:
        return True

    @cached_property
    def arch(self) -> int:
        """10 * major + minor of the compute capability."""
        major, minor = (self.device_attribute(f"compute_capability_{part}") for part in ("major", "minor"))
        assert major is not None
        assert minor is not None
        return 10 * major + minor

    def load(self, module: str) -> None:
        if self.why_no_kernels:
            raise WitnessMissing(self.why_no_kernels)
        self._load(module)

    def _load(self, module: str) -> None:
        if module in self._modules:
            return
        code = nvrtc.machine_code(sources.source(module), self.arch)
        with self.context():
            loaded = _call("cuModuleLoadData", code)
            try:
                for name in KERNELS[module]:
                    self._functions[name] = _call("cuModuleGetFunction", loaded, name.encode())
                warm_up(self, module)
            except WitnessError:
                self._functions = {n: f for n, f in self._functions.items() if n not in KERNELS[module]}
                _call("cuModuleUnload", loaded)
                raise
        self._modules[module] = loaded

    def launch(self, kernel: str, stream: int, blocks: int, threads: int, *arguments: int) -> None:
        if kernel not in self._functions:
            self.load(module_of(kernel))
        parameters = (arguments, KERNELS[module_of(kernel)][kernel])
        grid, block = (blocks, 1, 1), (threads, 1, 1)
        with self.context():
            _call("cuLaunchKernel", self._functions[kernel], *grid, *block, 0, stream, parameters, 0)
