// SPDX-License-Identifier: MIT
// portamem/rt/cuda/driver.hpp: the few driver calls for which the CUDA runtime has no equal.
//
// They are looked up through the runtime, once: linking libcuda would make a module unloadable where there is no
// driver. HIP on the NVIDIA platform includes this file too, since HIP's own headers would link libcuda there.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

PORTAMEM_RT_OPEN

namespace driver {

/// The address of a driver call as it was in a version of CUDA; null where the driver is older, or there is none.
template <class Function>
Function entry_point(const char* name, [[maybe_unused]] unsigned version) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error == cudaSuccess ? reinterpret_cast<Function>(address) : nullptr;
}

/// Signatures are spelled out: a header older than a call does not have it, and a newer one may rename it by macro.
struct EntryPoints {
    CUresult (*device_get)(CUdevice*, int);
    CUresult (*device_get_uuid)(CUuuid*, CUdevice);
    CUresult (*primary_ctx_retain)(CUcontext*, CUdevice);
    CUresult (*primary_ctx_release)(CUdevice);
    CUresult (*ctx_get_current)(CUcontext*);
    CUresult (*ctx_set_current)(CUcontext);
    CUresult (*ctx_get_device)(CUdevice*);
    CUresult (*mem_get_address_range)(CUdeviceptr*, std::size_t*, CUdeviceptr);
    CUresult (*pointer_get_attribute)(void*, CUpointer_attribute, CUdeviceptr);
    CUresult (*stream_get_ctx)(CUstream, CUcontext*);
    CUresult (*stream_get_device)(CUstream, CUdevice*);
    CUresult (*stream_get_id)(CUstream, unsigned long long*);
    CUresult (*stream_is_capturing)(CUstream, CUstreamCaptureStatus*);
    CUresult (*thread_exchange_stream_capture_mode)(CUstreamCaptureMode*);
    CUresult (*mem_alloc_from_pool_async)(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream);
    CUresult (*mem_free_async)(CUdeviceptr, CUstream);

    EntryPoints() {
        find(device_get, "cuDeviceGet");
        find(device_get_uuid, "cuDeviceGetUuid");
        find(primary_ctx_retain, "cuDevicePrimaryCtxRetain");
        find(primary_ctx_release, "cuDevicePrimaryCtxRelease");
        find(ctx_get_current, "cuCtxGetCurrent");
        find(ctx_set_current, "cuCtxSetCurrent");
        find(ctx_get_device, "cuCtxGetDevice");
        find(mem_get_address_range, "cuMemGetAddressRange");
        find(pointer_get_attribute, "cuPointerGetAttribute");
        find(stream_get_ctx, "cuStreamGetCtx");
        find(stream_get_device, "cuStreamGetDevice", 12080);
        find(stream_get_id, "cuStreamGetId");
        find(stream_is_capturing, "cuStreamIsCapturing");
        find(thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
        find(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync");
        find(mem_free_async, "cuMemFreeAsync");
    }

    /// Whether there is a driver at all: the calls above are older than CUDA 12, but for cuStreamGetDevice.
    bool found() const { return ctx_get_current != nullptr; }

  private:
    template <class Function>
    static void find(Function& function, const char* name, unsigned version = 12000) {
        function = entry_point<Function>(name, version);
    }
};

inline const EntryPoints& entry_points() {
    static const EntryPoints points;
    return points;
}

/// The driver numbers its errors as the runtime does, and has no last-error slot.
inline Error_t answer(CUresult result) { return static_cast<Error_t>(result); }

/// The answer where a driver call is needed and not found: why the runtime has no device, or NotSupported.
inline Error_t without_driver() {
    int device = InvalidDeviceId;
    const Error_t error = rt::answer(cudaGetDevice(&device));
    return error == Error_t::Success ? Error_t::NotSupported : error;
}

struct DeviceState {
    bool switched = false;
    int device = InvalidDeviceId;  ///< to be set again where there are no driver calls
    CUcontext context = nullptr;   ///< to be made current again, null too
};

/// Makes a device's primary context current. cudaSetDevice would not do: the runtime remembers it besides the driver's
/// current context, so a thread that had none could not be put back (seen with 13.0: cudaGetDevice then names the
/// new device, while cudaMalloc goes to the first). For the same reason a thread without a context is never taken to
/// have a current device.
inline Error_t push_device(int device, DeviceState* saved) {
    const EntryPoints& driver = entry_points();
    *saved = DeviceState{};
    int current = InvalidDeviceId;
    if (!driver.found()) {
        Error_t error = rt::answer(cudaGetDevice(&current));
        if (error != Error_t::Success || current == device) return error;
        error = rt::answer(cudaSetDevice(device));
        if (error == Error_t::Success) *saved = DeviceState{true, current, nullptr};
        return error;
    }
    // The driver numbers its devices as the runtime does: masks apply to both. Without a context it refuses.
    CUdevice of_context = InvalidDeviceId;
    if (driver.ctx_get_device(&of_context) == CUDA_SUCCESS && of_context == device) return Error_t::Success;
    CUcontext before = nullptr;
    if (const CUresult result = driver.ctx_get_current(&before); result != CUDA_SUCCESS) return answer(result);
    if (const Error_t error = rt::answer(cudaInitDevice(device, 0, 0)); error != Error_t::Success) return error;
    CUdevice handle = 0;
    CUcontext primary = nullptr;
    CUresult result = driver.device_get(&handle, device);
    if (result == CUDA_SUCCESS) result = driver.primary_ctx_retain(&primary, handle);
    if (result != CUDA_SUCCESS) return answer(result);
    result = driver.ctx_set_current(primary);
    // The runtime holds a reference of its own since cudaInitDevice.
    (void)driver.primary_ctx_release(handle);
    if (result == CUDA_SUCCESS) *saved = DeviceState{true, InvalidDeviceId, before};
    return answer(result);
}

inline Error_t pop_device(const DeviceState& saved) {
    if (!saved.switched) return Error_t::Success;
    if (saved.device != InvalidDeviceId) return rt::answer(cudaSetDevice(saved.device));
    return answer(entry_points().ctx_set_current(saved.context));
}

/// A slice's own uuid under MIG, which the runtime's properties do not promise.
inline Error_t device_get_uuid(unsigned char* uuid16, int device) {
    const EntryPoints& driver = entry_points();
    if (!driver.found()) return without_driver();
    CUdevice handle = 0;
    CUuuid uuid{};
    CUresult result = driver.device_get(&handle, device);
    if (result == CUDA_SUCCESS) result = driver.device_get_uuid(&uuid, handle);
    if (result == CUDA_SUCCESS) std::memcpy(uuid16, uuid.bytes, sizeof uuid.bytes);
    return answer(result);
}

/// Start and size of the allocation around a pointer; untouched where the driver knows none.
inline void mem_get_address_range(void** base, std::size_t* nbytes, const void* ptr) {
    const EntryPoints& driver = entry_points();
    CUdeviceptr start = 0;
    std::size_t size = 0;
    if (!driver.found()) return;
    if (driver.mem_get_address_range(&start, &size, reinterpret_cast<CUdeviceptr>(ptr)) != CUDA_SUCCESS) return;
    *base = reinterpret_cast<void*>(start);
    *nbytes = size;
}

/// A boolean of the memory around a pointer. The driver writes one, of a size that its manual does not say.
inline Error_t pointer_get_flag(int* value, CUpointer_attribute attribute, const void* ptr) {
    const EntryPoints& driver = entry_points();
    if (driver.pointer_get_attribute == nullptr) return without_driver();
    std::uint64_t flag = 0;
    const CUresult result = driver.pointer_get_attribute(&flag, attribute, reinterpret_cast<CUdeviceptr>(ptr));
    if (result == CUDA_SUCCESS) *value = flag != 0;
    return answer(result);
}

/// The device of a created stream, by way of its context: the call made for this is of 12.8, and asked about a stream
/// under capture it invalidates the capture (seen with 13.0). A stream of a green context has only that call.
inline Error_t stream_get_device(CUstream stream, int* device) {
    const EntryPoints& driver = entry_points();
    if (!driver.found()) return without_driver();
    CUcontext before = nullptr;
    CUcontext context = nullptr;
    CUresult result = driver.stream_get_ctx(stream, &context);
    if (result != CUDA_SUCCESS && driver.stream_get_device != nullptr) {
        return answer(driver.stream_get_device(stream, device));
    }
    if (result == CUDA_SUCCESS) result = driver.ctx_get_current(&before);
    if (result == CUDA_SUCCESS) result = driver.ctx_set_current(context);
    if (result != CUDA_SUCCESS) return answer(result);
    result = driver.ctx_get_device(device);
    const CUresult restored = driver.ctx_set_current(before);
    return answer(result == CUDA_SUCCESS ? restored : result);
}

/// cudaStreamIsCapturing takes three times as long, and gives a thread without a context one on device 0. A default
/// stream is the current context's, so it takes the runtime.
inline Error_t stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
    const EntryPoints& driver = entry_points();
    if (driver.stream_is_capturing == nullptr) return without_driver();
    return answer(driver.stream_is_capturing(stream, status));
}

/// Needs no context. Of a captured stream it is not asked: that invalidates the capture.
inline Error_t stream_get_id(CUstream stream, std::uint64_t* id) {
    const EntryPoints& driver = entry_points();
    if (driver.stream_get_id == nullptr) return without_driver();
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (const Error_t error = stream_is_capturing(stream, &status); error != Error_t::Success) return error;
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) return Error_t::StreamCaptureUnsupported;
    unsigned long long found = 0;
    const CUresult result = driver.stream_get_id(stream, &found);
    if (result == CUDA_SUCCESS) *id = found;
    return answer(result);
}

/// cudaThreadExchangeStreamCaptureMode takes six times as long, and gives a thread without a context one on device 0.
inline Error_t thread_exchange_stream_capture_mode(CUstreamCaptureMode* mode) {
    const EntryPoints& driver = entry_points();
    if (driver.thread_exchange_stream_capture_mode == nullptr) return without_driver();
    return answer(driver.thread_exchange_stream_capture_mode(mode));
}

/// The pool and the stream say where: unlike the runtime's calls these need no context, and give the thread none.
inline Error_t mem_alloc_from_pool_async(void** ptr, std::size_t nbytes, CUmemoryPool pool, CUstream stream) {
    const EntryPoints& driver = entry_points();
    if (driver.mem_alloc_from_pool_async == nullptr) return without_driver();
    CUdeviceptr address = 0;
    const CUresult result = driver.mem_alloc_from_pool_async(&address, nbytes, pool, stream);
    *ptr = reinterpret_cast<void*>(address);
    return answer(result);
}

inline Error_t mem_free_async(void* ptr, CUstream stream) {
    const EntryPoints& driver = entry_points();
    if (driver.mem_free_async == nullptr) return without_driver();
    return answer(driver.mem_free_async(reinterpret_cast<CUdeviceptr>(ptr), stream));
}

}  // namespace driver

PORTAMEM_RT_CLOSE
