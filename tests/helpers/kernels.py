"""Kernels that fill, check and copy memory or hold a stream, compiled at run time and launched by the driver's API."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers import partners
from helpers.partners import check
from helpers.waiting import eventually

SOURCE = r"""
typedef unsigned char byte;
typedef unsigned long long u64;

__device__ byte pattern(u64 i, unsigned seed) { return (byte)(((unsigned)i + seed) * 2654435761u >> 24); }
__device__ u64 first() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }
__device__ u64 stride() { return gridDim.x * (u64)blockDim.x; }
__device__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void fill(byte* p, u64 n, unsigned seed) {
    for (u64 i = first(); i < n; i += stride()) p[i] = pattern(i, seed);
}

extern "C" __global__ void verify(const byte* p, u64 n, unsigned seed, u64* mismatches) {
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != pattern(i, seed)) atomicAdd(mismatches, 1ULL);
}

extern "C" __global__ void verify_bytes(const byte* p, u64 n, unsigned value, u64* mismatches) {
    for (u64 i = first(); i < n; i += stride())
        if (p[i] != value) atomicAdd(mismatches, 1ULL);
}

extern "C" __global__ void copy(byte* dst, const byte* src, u64 n) {
    for (u64 i = first(); i < n; i += stride()) dst[i] = src[i];
}

// words: entered, released, timed out; in pinned memory that the host watches and writes.
extern "C" __global__ void latch(volatile unsigned* words, u64 timeout) {
    words[0] = 1;
    __threadfence_system();
    const u64 begin = nanoseconds();
    while (words[1] == 0) {
        if (nanoseconds() - begin > timeout) {
            words[2] = 1;
            break;
        }
        __nanosleep(500);
    }
    __threadfence_system();
}
"""

_POINTER, _COUNT, _WORD = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "fill": (_POINTER, _COUNT, _WORD),
    "verify": (_POINTER, _COUNT, _WORD, _POINTER),
    "verify_bytes": (_POINTER, _COUNT, _WORD, _POINTER),
    "copy": (_POINTER, _POINTER, _COUNT),
    "latch": (_POINTER, _COUNT),
}

_THREADS = 256
_BLOCKS = 128

TIMEOUT_S = 10.0


def pattern(nbytes: int, seed: int) -> bytes:
    """What the kernel ``fill`` writes."""
    mixed = (np.arange(nbytes, dtype=np.uint32) + np.uint32(seed)) * np.uint32(2654435761)
    return (mixed >> np.uint32(24)).astype(np.uint8).tobytes()


@cache
def compile_for(arch: int, source: str = SOURCE) -> bytes:
    """Machine code for ``sm_<arch>``. A compiler's error fails the test with its log."""
    nvrtc = partners.nvrtc()
    program = check(nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, None, None))
    try:
        options = [f"--gpu-architecture=sm_{arch}".encode()]
        (compiled,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
        check(nvrtc.nvrtcGetProgramLog(program, log))
        assert int(compiled) == 0, log.decode(errors="replace")
        code = bytearray(check(nvrtc.nvrtcGetCUBINSize(program)))
        check(nvrtc.nvrtcGetCUBIN(program, code))
        return bytes(code)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


class Kernels:
    """The kernels of one device, whose context has to be current for every call here."""

    def __init__(self, ordinal: int) -> None:
        self._runtime, self._driver = partners.cuda_runtime(), partners.cuda_driver()
        attribute = self._runtime.cudaDeviceAttr
        major, minor = (
            check(self._runtime.cudaDeviceGetAttribute(which, ordinal))
            for which in (attribute.cudaDevAttrComputeCapabilityMajor, attribute.cudaDevAttrComputeCapabilityMinor)
        )
        arch = 10 * major + minor
        if arch not in check(partners.nvrtc().nvrtcGetSupportedArchs()):
            pytest.skip(f"this NVRTC does not compile for sm_{arch}")
        self._code = compile_for(arch)
        self._module = check(self._driver.cuModuleLoadData(self._code))
        self._functions = {
            name: check(self._driver.cuModuleGetFunction(self._module, name.encode())) for name in PARAMETERS
        }
        self._load_all()

    def _load_all(self) -> None:
        """Runs every kernel on nothing: drivers load lazily, and could do so only after a latch that is held."""
        words = check(self._runtime.cudaHostAlloc(16, self._runtime.cudaHostAllocPortable))
        ctypes.memset(words, 1, 16)  # a latch that is open
        for name, types in PARAMETERS.items():
            self.launch(name, 0, *(words if name == "latch" and kind is _POINTER else 0 for kind in types))
        check(self._runtime.cudaDeviceSynchronize())
        check(self._runtime.cudaFreeHost(words))

    def launch(self, name: str, stream: int, *arguments: int) -> None:
        """Queues a kernel on a stream, given by its handle."""
        single = name == "latch"
        check(
            self._driver.cuLaunchKernel(
                self._functions[name],
                *(1 if single else _BLOCKS, 1, 1),
                *(1 if single else _THREADS, 1, 1),
                0,
                stream,
                (arguments, PARAMETERS[name]),
                0,
            )
        )

    def fill(self, stream: Any, handle: int, nbytes: int, seed: int) -> None:
        self.launch("fill", int(stream.handle), handle, nbytes, seed)

    def copy(self, stream: Any, dst: int, src: int, nbytes: int) -> None:
        self.launch("copy", int(stream.handle), dst, src, nbytes)


@cache
def on(ordinal: int) -> Kernels:
    """The kernels of a device whose context is current; loaded once and kept, as everything queued may use them."""
    return Kernels(ordinal)


class Counter:
    """A number in the oracle's own memory, to which kernels add the bytes that they find wrong."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels, self._runtime = kernels, partners.cuda_runtime()
        self._address = check(self._runtime.cudaMalloc(8))
        check(self._runtime.cudaMemset(self._address, 0, 8))

    def verify(self, stream: Any, handle: int, nbytes: int, seed: int) -> None:
        self._kernels.launch("verify", int(stream.handle), handle, nbytes, seed, self._address)

    def verify_bytes(self, stream: Any, handle: int, nbytes: int, value: int) -> None:
        self._kernels.launch("verify_bytes", int(stream.handle), handle, nbytes, value, self._address)

    def read(self) -> int:
        """The count. Everything queued on the device has run then."""
        check(self._runtime.cudaDeviceSynchronize())
        count = ctypes.c_uint64()
        kind = self._runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(self._runtime.cudaMemcpy(ctypes.addressof(count), self._address, 8, kind))
        return count.value

    def close(self) -> None:
        check(self._runtime.cudaFree(self._address))


class DeviceLatch:
    """A kernel at the head of a stream that runs until released. Ends by itself after a timeout, so nothing hangs."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels, self._runtime = kernels, partners.cuda_runtime()
        self._address = check(self._runtime.cudaHostAlloc(12, self._runtime.cudaHostAllocPortable))
        self._words = (ctypes.c_uint32 * 3).from_address(self._address)
        self._words[:] = [0, 0, 0]

    def hold(self, stream: Any) -> DeviceLatch:
        """Queues the latch on a stream, and waits until it runs."""
        self._kernels.launch("latch", int(stream.handle), self._address, int(TIMEOUT_S * 1e9))
        assert eventually(lambda: self._words[0] != 0, TIMEOUT_S), "the stream never came to the latch"
        return self

    def release(self) -> None:
        self._words[1] = 1

    @property
    def timed_out(self) -> bool:
        return self._words[2] != 0

    def close(self) -> None:
        del self._words
        check(self._runtime.cudaFreeHost(self._address))
