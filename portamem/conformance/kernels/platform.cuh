// SPDX-License-Identifier: MIT
// conformance/kernels/platform.cuh: what the compilers of CUDA C++ and HIP C++ at run time spell differently.
typedef unsigned char byte;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__

#if defined(__HIP__) || defined(__HIPCC_RTC__)

DEVICE u64 ticks() {
#if __has_builtin(__builtin_readsteadycounter)
    return __builtin_readsteadycounter();
#elif HIP_VERSION >= 50400000
    return (u64)wall_clock64();
#else
    return (u64)__builtin_amdgcn_s_memrealtime();
#endif
}
DEVICE void rest() { __builtin_amdgcn_s_sleep(8); }
#define HAS_ALIGNED_MALLOC 0

#else

DEVICE u64 ticks() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
DEVICE void rest() { __nanosleep(500); }
#define HAS_ALIGNED_MALLOC 1

#endif

DEVICE byte pattern(u64 i, unsigned seed) { return (byte)(((unsigned)i + seed) * 2654435761u >> 24); }
DEVICE u64 first() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }
DEVICE u64 stride() { return gridDim.x * (u64)blockDim.x; }
