// SPDX-License-Identifier: MIT
// copies.cpp: copies and fills.
#include "coherence.hpp"
#include "quirks.hpp"
#include "records.hpp"
#include "standin.hpp"

using namespace standin;

namespace {

// Kinds beyond Default differ only in the engine that copies.
int native_kind(hipMemcpyKind kind) {
    const int number = static_cast<int>(kind);
    return number == 1024 ? static_cast<int>(pmhMemcpyDeviceToDevice) : number;
}

bool is_device_memory(const void* ptr) {
    const auto memory = known(ptr);
    return memory && memory->is_device_memory();
}

hipError_t copy_async(void* dst, const void* src, std::size_t size, hipMemcpyKind kind, hipStream_t stream) {
    settle_before_read(src, stream);
    void* target = is_device_memory(src) ? device_side(dst, size) : dst;
    const pmhError_t error = pmhMemcpyAsync(target, src, size, native_kind(kind), native(stream));
    if (error == pmhSuccess && target != dst) note_write(dst, size, stream);
    return translate(error);
}

hipError_t fill_async(void* dst, int value, std::size_t size, hipStream_t stream) {
    void* target = device_side(dst, size);
    const pmhError_t error = pmhMemsetAsync(target, value, size, native(stream));
    if (error == pmhSuccess && target != dst) note_write(dst, size, stream);
    return translate(error);
}

pmhPitchedPtr native(const hipPitchedPtr& ptr) { return {ptr.ptr, ptr.pitch, ptr.xsize, ptr.ysize}; }
pmhPos native(const hipPos& position) { return {position.x, position.y, position.z}; }

bool has_arrays(const hipMemcpy3DParms& parms) { return parms.srcArray != nullptr || parms.dstArray != nullptr; }

pmhMemcpy3DParms native(const hipMemcpy3DParms& parms) {
    return {native(parms.srcPtr),
            native(parms.srcPos),
            native(parms.dstPtr),
            native(parms.dstPos),
            {parms.extent.width, parms.extent.height, parms.extent.depth},
            native_kind(parms.kind)};
}

// The limit is as the issue reports it: a pointer behind the beginning by as much as is copied fails, by little does
// not.
bool lies_too_far(const void* ptr, std::size_t length) {
    const auto memory = known(ptr);
    if (!memory || memory->is_device_memory()) return false;
    return static_cast<std::size_t>(static_cast<const char*>(ptr) - memory->base) >= length;
}

bool is_direction_missed(const void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                         std::size_t height, hipMemcpyKind kind) {
    if (kind != hipMemcpyDefault || !has(Quirk::PitchedCopyDirection)) return false;
    return lies_too_far(dst, dst_pitch * height) || lies_too_far(src, src_pitch * height);
}

bool is_direction_missed(const hipMemcpy3DParms& parms) {
    const std::size_t height = parms.extent.height * parms.extent.depth;
    return is_direction_missed(parms.dstPtr.ptr, parms.dstPtr.pitch, parms.srcPtr.ptr, parms.srcPtr.pitch, height,
                               parms.kind);
}

}  // namespace

hipError_t hipMemcpy(void* dst, const void* src, std::size_t size, hipMemcpyKind kind) {
    settle_before_read(src, nullptr);
    return answer(pmhMemcpy(dst, src, size, native_kind(kind)));
}

hipError_t hipMemcpyAsync(void* dst, const void* src, std::size_t size, hipMemcpyKind kind, hipStream_t stream) {
    return answer(copy_async(dst, src, size, kind, stream));
}

hipError_t hipMemcpyWithStream(void* dst, const void* src, std::size_t size, hipMemcpyKind kind, hipStream_t stream) {
    settle_before_read(src, stream);
    pmhError_t error = pmhMemcpyAsync(dst, src, size, native_kind(kind), standin::native(stream));
    if (error == pmhSuccess) error = pmhStreamSynchronize(standin::native(stream));
    return answer(error);
}

hipError_t hipMemcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                       std::size_t height, hipMemcpyKind kind) {
    if (is_direction_missed(dst, dst_pitch, src, src_pitch, height, kind)) return answer(hipErrorInvalidValue);
    return answer(pmhMemcpy2D(dst, dst_pitch, src, src_pitch, width, height, native_kind(kind)));
}

hipError_t hipMemcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                            std::size_t height, hipMemcpyKind kind, hipStream_t stream) {
    if (is_direction_missed(dst, dst_pitch, src, src_pitch, height, kind)) return answer(hipErrorInvalidValue);
    return answer(
        pmhMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, native_kind(kind), standin::native(stream)));
}

hipError_t hipMemcpy3D(const hipMemcpy3DParms* parms) {
    if (parms == nullptr) return answer(hipErrorInvalidValue);
    if (has_arrays(*parms)) return answer(hipErrorNotSupported);
    if (is_direction_missed(*parms)) return answer(hipErrorInvalidValue);
    const pmhMemcpy3DParms host = native(*parms);
    return answer(pmhMemcpy3D(&host));
}

hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* parms, hipStream_t stream) {
    if (parms == nullptr) return answer(hipErrorInvalidValue);
    if (has_arrays(*parms)) return answer(hipErrorNotSupported);
    if (is_direction_missed(*parms)) return answer(hipErrorInvalidValue);
    const pmhMemcpy3DParms host = native(*parms);
    return answer(pmhMemcpy3DAsync(&host, standin::native(stream)));
}

hipError_t hipMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, std::size_t size) {
    return answer(pmhMemcpyPeer(dst, dst_device, src, src_device, size));
}

hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, std::size_t size,
                              hipStream_t stream) {
    return answer(pmhMemcpyPeerAsync(dst, dst_device, src, src_device, size, standin::native(stream)));
}

hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, std::size_t size) {
    return hipMemcpy(dst, src, size, hipMemcpyDeviceToHost);
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, std::size_t size) {
    return hipMemcpy(dst, src, size, hipMemcpyDeviceToDevice);
}

#if HIP_VERSION_MAJOR >= 7
hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void* src, std::size_t size) {
#else
hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void* src, std::size_t size) {
#endif
    return hipMemcpy(dst, src, size, hipMemcpyHostToDevice);
}

hipError_t hipMemset(void* dst, int value, std::size_t size) { return answer(pmhMemset(dst, value, size)); }

hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, std::size_t size) {
    return answer(pmhMemset(dst, value, size));
}

hipError_t hipMemsetAsync(void* dst, int value, std::size_t size, hipStream_t stream) {
    return answer(fill_async(dst, value, size, stream));
}

hipError_t hipMemset2D(void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height) {
    return answer(pmhMemset2D(dst, pitch, value, width, height));
}

hipError_t hipMemset2DAsync(void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height,
                            hipStream_t stream) {
    return answer(pmhMemset2DAsync(dst, pitch, value, width, height, standin::native(stream)));
}
