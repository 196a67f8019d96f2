// SPDX-License-Identifier: MIT
// portamem/capture.hpp: calls made beside somebody's stream capture.
#pragma once

#include "portamem/status.hpp"

PORTAMEM_OPEN

/// For its scope, this thread's calls do not count against captures of other streams. Allocating, freeing and asking
/// events have nothing to do with what is being captured, yet under a global capture the vendors would refuse them and
/// invalidate the capture. Work on a captured stream itself is refused by portamem before this.
class RelaxedCapture {
  public:
    RelaxedCapture() { swapped_ = rt::ThreadExchangeStreamCaptureMode(&mode_) == rt::Error_t::Success; }
    ~RelaxedCapture() {
        if (swapped_) (void)rt::ThreadExchangeStreamCaptureMode(&mode_);
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    rt::StreamCaptureMode mode_ = rt::StreamCaptureMode::Relaxed;
    bool swapped_ = false;
};

PORTAMEM_CLOSE
