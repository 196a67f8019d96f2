// SPDX-License-Identifier: MIT
// memory.cpp: device memory.
#include "coherence.hpp"
#include "ipc.hpp"
#include "records.hpp"
#include "standin.hpp"

using namespace standin;
using portamem::host::Kind;

namespace {

constexpr std::size_t pitch_granule = 256;  // one row length for all of AMD's devices

hipError_t malloc_pitch(void** ptr, std::size_t* pitch, std::size_t width, std::size_t height) {
    if (ptr == nullptr || pitch == nullptr) return hipErrorInvalidValue;
    if (width == 0 || height == 0) {
        *ptr = nullptr;  // the pitch stays as it was
        return hipSuccess;
    }
    std::size_t bytes = 0;
    const std::size_t row = round_up(width, pitch_granule);
    if (row < width || __builtin_mul_overflow(row, height, &bytes)) return hipErrorOutOfMemory;
    const pmhError_t error = pmhMalloc(ptr, bytes);
    if (error == pmhSuccess) *pitch = row;
    return translate(error);
}

// Free and HostFree are one function.
hipError_t free_any(void* ptr, bool asked_as_host) {
    const auto memory = known(ptr);
    if (memory && !memory->is_freeable) return hipErrorInvalidValue;
    const bool is_pinned = memory && memory->kind == Kind::Pinned;
    const bool as_host = has(Quirk::FreeTakesPinned) && memory ? is_pinned : asked_as_host;
    if (memory && memory->base == ptr && (has(Quirk::FreeWaits) || memory->kind != Kind::Pool))
        wait_for_device(memory->device);
    if (is_pinned) forget_shadow(ptr);
    if (memory && memory->kind == Kind::Device) stop_sharing(ptr);
    return translate(as_host ? pmhHostFree(ptr) : pmhFree(ptr));
}

}  // namespace

hipError_t hipMalloc(void** ptr, std::size_t size) { return answer(pmhMalloc(ptr, size)); }

hipError_t hipExtMallocWithFlags(void** ptr, std::size_t size, unsigned flags) {
#if defined(hipDeviceMallocUncached)
    // The host runtime has no cache that could be left out.
    if (flags == hipDeviceMallocUncached) return answer(pmhMalloc(ptr, size));
#endif
    return answer(pmhExtMallocWithFlags(ptr, size, flags));
}

hipError_t hipFree(void* ptr) { return answer(free_any(ptr, false)); }

hipError_t hipHostFree(void* ptr) { return answer(free_any(ptr, true)); }

hipError_t hipFreeHost(void* ptr) { return hipHostFree(ptr); }

hipError_t hipMallocPitch(void** ptr, std::size_t* pitch, std::size_t width, std::size_t height) {
    return answer(malloc_pitch(ptr, pitch, width, height));
}

hipError_t hipMemAllocPitch(hipDeviceptr_t* ptr, std::size_t* pitch, std::size_t width, std::size_t height, unsigned) {
    return answer(malloc_pitch(ptr, pitch, width, height));
}

hipError_t hipMalloc3D(hipPitchedPtr* volume, hipExtent extent) {
    if (volume == nullptr) return answer(hipErrorInvalidValue);
    std::size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return answer(hipErrorOutOfMemory);
    *volume = {};
    const hipError_t error = malloc_pitch(&volume->ptr, &volume->pitch, extent.width, rows);
    if (error == hipSuccess) {
        volume->xsize = extent.width;
        volume->ysize = extent.height;
    }
    return answer(error);
}
