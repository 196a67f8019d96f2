// SPDX-License-Identifier: MIT
// events.cpp: events.
#include <map>
#include <mutex>

#include "coherence.hpp"
#include "standin.hpp"

using namespace standin;

namespace {

constexpr unsigned releases = hipEventReleaseToDevice | hipEventReleaseToSystem;
#if defined(hipEventDisableSystemFence)
constexpr unsigned fences = releases | hipEventDisableSystemFence;
#else
constexpr unsigned fences = releases;
#endif

// Events that make visible to the host what their stream wrote, and that stream.
struct Releasing {
    std::mutex mutex;
    std::map<hipEvent_t, hipStream_t> recorded_on;
};

Releasing& releasing() {
    static Releasing& all = *new Releasing;
    return all;
}

hipError_t create(hipEvent_t* event, unsigned flags) {
    if ((flags & releases) == releases) return hipErrorInvalidValue;
    const pmhError_t error = pmhEventCreateWithFlags(native(event), flags & ~fences);
    if (error == pmhSuccess && (flags & hipEventReleaseToSystem) != 0) {
        const std::lock_guard<std::mutex> lock(releasing().mutex);
        releasing().recorded_on[*event] = nullptr;
    }
    return translate(error);
}

}  // namespace

hipError_t hipEventCreate(hipEvent_t* event) { return answer(create(event, 0)); }

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) { return answer(create(event, flags)); }

hipError_t hipEventDestroy(hipEvent_t event) {
    const pmhError_t error = pmhEventDestroy(native(event));
    if (error == pmhSuccess) {
        const std::lock_guard<std::mutex> lock(releasing().mutex);
        releasing().recorded_on.erase(event);
    }
    return answer(error);
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
    const pmhError_t error = pmhEventRecord(native(event), native(stream));
    if (error == pmhSuccess) {
        const std::lock_guard<std::mutex> lock(releasing().mutex);
        const auto found = releasing().recorded_on.find(event);
        if (found != releasing().recorded_on.end()) found->second = stream;
    }
    return answer(error);
}

#if HIP_VERSION >= 60400000
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
    return flags == 0 ? hipEventRecord(event, stream) : answer(hipErrorInvalidValue);
}
#endif

hipError_t hipEventQuery(hipEvent_t event) { return answer(pmhEventQuery(native(event))); }

hipError_t hipEventSynchronize(hipEvent_t event) {
    std::vector<CachedWrite> writes;
    {
        const std::lock_guard<std::mutex> lock(releasing().mutex);
        const auto found = releasing().recorded_on.find(event);
        if (found != releasing().recorded_on.end()) writes = cached_writes(found->second);
    }
    const pmhError_t error = pmhEventSynchronize(native(event));
    if (error == pmhSuccess) publish(writes);
    return answer(error);
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t end) {
    return answer(pmhEventElapsedTime(milliseconds, native(start), native(end)));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
    return answer(pmhStreamWaitEvent(native(stream), native(event), flags));
}
