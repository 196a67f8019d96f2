// SPDX-License-Identifier: MIT
// portamem/device_guard.hpp: a device made current for a scope.
#pragma once

#include "portamem/error.hpp"

PORTAMEM_OPEN

/// Makes a device current on this thread, and puts the former one back at its end, context included.
class DeviceGuard {
  public:
    explicit DeviceGuard(int device) { check(rt::PushDevice(device, &saved_), "SetDevice"); }
    ~DeviceGuard() { (void)rt::PopDevice(saved_); }
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

  private:
    rt::DeviceState_t saved_{};
};

PORTAMEM_CLOSE
