// SPDX-License-Identifier: MIT
// portamem/capture.hpp: calls that leave other streams' captures intact.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

#include "portamem/device_guard.hpp"
#include "portamem/process_object.hpp"

PORTAMEM_OPEN

/// Lets this thread make calls that leave the captures of other streams intact, until the scope ends. For calls that
/// need no current device; RelaxedCapture is for the others.
class RelaxedCaptureMode {
  public:
    RelaxedCaptureMode() : swapped_(rt::ThreadExchangeStreamCaptureMode(&mode_) == rt::Error_t::Success) {}
    ~RelaxedCaptureMode() {
        if (swapped_) (void)rt::ThreadExchangeStreamCaptureMode(&mode_);
    }
    RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
    RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

  private:
    rt::StreamCaptureMode mode_ = rt::StreamCaptureMode::Relaxed;
    const bool swapped_;
};

/// Keeps this thread's calls from counting against captures of other streams, for its scope. Allocating, freeing and
/// asking events have nothing to do with the captured work, yet under a global capture the vendors would refuse them
/// and invalidate the capture. portamem refuses work on a captured stream itself before this.
///
/// It makes the device current first. Otherwise nearly every call would give a thread without a context one on device
/// 0.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(int device) : guard_(device) {}

  private:
    const DeviceGuard guard_;  // put back last
    const RelaxedCaptureMode mode_;
};

namespace detail {

// Counts the captures that portamem itself has begun. Foreign captures are seen on their streams only.
inline std::atomic<int>& open_captures() {
    static auto& count = process_object<std::atomic<int>>("open captures");
    return count;
}

inline void refuse_in_capture(const char* what) {
    if (open_captures().load(std::memory_order_relaxed) == 0) return;
    throw std::invalid_argument(std::string(what) + " is forbidden while a stream is captured: end the capture first");
}

}  // namespace detail

PORTAMEM_CLOSE
