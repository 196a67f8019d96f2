// SPDX-License-Identifier: MIT
// portamem/device_guard.hpp: a device made current for a scope.
#pragma once

#include "portamem/error.hpp"

PORTAMEM_OPEN

/// Makes a device current on this thread, and puts the former one back at its end, context included.
class DeviceGuard {
  public:
    /// Throws Error if the runtime refuses. If `is_needed` is false, the guard does nothing.
    explicit DeviceGuard(int device, bool is_needed = true) : is_needed_(is_needed) {
        if (is_needed_) check(rt::PushDevice(device, &saved_), "SetDevice");
    }
    ~DeviceGuard() {
        if (is_needed_) (void)rt::PopDevice(saved_);
    }
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

  private:
    const bool is_needed_;
    rt::DeviceState_t saved_{};
};

PORTAMEM_CLOSE
