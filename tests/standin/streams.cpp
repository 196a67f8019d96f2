// SPDX-License-Identifier: MIT
// streams.cpp: streams.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "coherence.hpp"
#include "standin.hpp"

using namespace standin;

namespace {

// The host runtime has one priority, the vendor three.
constexpr int least = 1;
constexpr int greatest = -1;

struct Priorities {
    std::mutex mutex;
    std::map<hipStream_t, int> of;
};

Priorities& priorities() {
    static Priorities& all = *new Priorities;
    return all;
}

hipError_t create(hipStream_t* stream, unsigned flags, int priority) {
    const pmhError_t error = pmhStreamCreateWithPriority(native(stream), flags, 0);
    if (error == pmhSuccess) {
        const std::lock_guard<std::mutex> lock(priorities().mutex);
        priorities().of[*stream] = std::clamp(priority, greatest, least);
    }
    return translate(error);
}

struct Callback {
    hipStreamCallback_t function;
    hipStream_t stream;
    void* user_data;

    static void run(void* self) {
        const std::unique_ptr<Callback> callback(static_cast<Callback*>(self));
        callback->function(callback->stream, hipSuccess, callback->user_data);
    }
};

}  // namespace

hipError_t hipDeviceGetStreamPriorityRange(int* low, int* high) {
    if (low != nullptr) *low = least;
    if (high != nullptr) *high = greatest;
    return answer(hipSuccess);
}

hipError_t hipStreamCreate(hipStream_t* stream) { return answer(create(stream, 0, 0)); }

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) { return answer(create(stream, flags, 0)); }

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
    return answer(create(stream, flags, priority));
}

hipError_t hipStreamDestroy(hipStream_t stream) {
    const pmhError_t error = pmhStreamDestroy(native(stream));
    if (error == pmhSuccess) {
        const std::lock_guard<std::mutex> lock(priorities().mutex);
        priorities().of.erase(stream);
    }
    return answer(error);
}

hipError_t hipStreamQuery(hipStream_t stream) { return answer(pmhStreamQuery(native(stream))); }

hipError_t hipStreamSynchronize(hipStream_t stream) {
    const auto writes = cached_writes(stream);
    const pmhError_t error = pmhStreamSynchronize(native(stream));
    if (error == pmhSuccess) publish(writes);
    return answer(error);
}

hipError_t hipDeviceSynchronize() {
    const auto writes = cached_writes_of_device();
    const pmhError_t error = pmhDeviceSynchronize();
    if (error == pmhSuccess) publish(writes);
    return answer(error);
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
    return answer(pmhStreamGetFlags(native(stream), flags));
}

hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
    const pmhError_t error = pmhStreamGetPriority(native(stream), priority);
    if (error != pmhSuccess) return answer(error);
    const std::lock_guard<std::mutex> lock(priorities().mutex);
    const auto found = priorities().of.find(stream);
    if (found != priorities().of.end()) *priority = found->second;
    return answer(hipSuccess);
}

int hipGetStreamDeviceId(hipStream_t stream) {
    int device = hipInvalidDeviceId;
    return pmhStreamGetDevice(native(stream), &device) == pmhSuccess ? device : -1;
}

#if HIP_VERSION_MAJOR >= 6
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
    return answer(pmhStreamGetDevice(native(stream), device));
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) {
    return answer(pmhLaunchHostFunc(native(stream), function, user_data));
}
#endif

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void* user_data, unsigned flags) {
    if (function == nullptr || flags != 0) return answer(hipErrorInvalidValue);
    std::unique_ptr<Callback> callback(new (std::nothrow) Callback{function, stream, user_data});
    if (callback == nullptr) return answer(hipErrorOutOfMemory);
    const pmhError_t error = pmhLaunchHostFunc(native(stream), &Callback::run, callback.get());
    if (error == pmhSuccess) (void)callback.release();
    return answer(error);
}
