// SPDX-License-Identifier: MIT
// masks.hpp: ROCR_VISIBLE_DEVICES and, of what that leaves, HIP_VISIBLE_DEVICES: numbers or uuids, up to the first that
// names no device.
#pragma once

#include <string>
#include <vector>

namespace standin {

/// The devices that the masks leave, by their number without masks.
const std::vector<int>& visible_devices();

/// The 16 characters by which the vendor tells a device apart, of its number without masks.
std::string serial_of(int device);

/// The environment itself: what knobs.cpp redirects is not.
const char* environment(const char* name);

}  // namespace standin
