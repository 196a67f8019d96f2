// SPDX-License-Identifier: MIT
// coherence.hpp: pinned memory that is not coherent: a device's writes to it stay in the device's cache until the host
// waits for a stream or for the device. Waiting for an event is not enough, unless the event was made with
// hipEventReleaseToSystem (HIP's programming manual, coherency controls).
//
// A shadow stands for that cache. It takes what asynchronous copies from device memory and asynchronous fills write:
// the stand-in runs no kernels. Copies of two and three dimensions write through.
#pragma once

#include <vector>

#include "standin.hpp"

namespace standin {

/// False where there is no memory for it.
bool add_shadow(void* base, std::size_t size);

void forget_shadow(void* base);

/// A write of the device, as it is in the shadow.
struct CachedWrite {
    hipStream_t stream;
    int device;
    char* target;
    const char* cached;
    std::size_t size;
};

/// The address that the device's write to `target` goes to: the shadow's, or `target` itself.
void* device_side(void* target, std::size_t size);

/// Notes that a write to the shadow of `target` is queued on a stream.
void note_write(void* target, std::size_t size, hipStream_t stream);

/// Before a device reads `source` on a stream: it has to find what it wrote there itself.
void settle_before_read(const void* source, hipStream_t stream);

/// The writes that waiting for a stream, or for the current device, makes visible. Take them before waiting, publish
/// them after.
std::vector<CachedWrite> cached_writes(hipStream_t stream);
std::vector<CachedWrite> cached_writes_of_device();
void publish(const std::vector<CachedWrite>& writes);

}  // namespace standin
