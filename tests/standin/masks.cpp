// SPDX-License-Identifier: MIT
// masks.cpp: reads the masks once.
#include "masks.hpp"

#include <hip/hip_version.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace standin {
namespace {

std::vector<int> all_devices() {
    const char* text = environment("STANDIN_DEVICES");
    std::vector<int> all(text == nullptr ? 2 : static_cast<std::size_t>(std::atoi(text)));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    return all;
}

std::optional<int> named(const std::string& item, const std::vector<int>& devices, bool knows_uuids) {
    if (knows_uuids && item.rfind("GPU-", 0) == 0) {
        const auto same = [&](int device) { return item.substr(4) == serial_of(device); };
        const auto found = std::find_if(devices.begin(), devices.end(), same);
        return found == devices.end() ? std::nullopt : std::optional(*found);
    }
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (item.empty() || item.size() > 6 || !std::all_of(item.begin(), item.end(), is_digit)) return std::nullopt;
    const auto index = static_cast<std::size_t>(std::stoi(item));
    return index < devices.size() ? std::optional(devices[index]) : std::nullopt;
}

std::vector<int> left_by(const char* mask, const std::vector<int>& devices, bool knows_uuids) {
    std::vector<int> left;
    for (std::string_view rest = mask; !rest.empty();) {
        const std::string_view item = rest.substr(0, rest.find(','));
        rest.remove_prefix(item.size() == rest.size() ? item.size() : item.size() + 1);
        const auto device = named(std::string(item), devices, knows_uuids);
        if (!device) break;
        left.push_back(*device);
    }
    return left;
}

}  // namespace

const std::vector<int>& visible_devices() {
    static const std::vector<int>& visible = *new std::vector<int>([] {
        std::vector<int> devices = all_devices();
        if (const char* mask = environment("ROCR_VISIBLE_DEVICES")) devices = left_by(mask, devices, true);
        const char* mask = environment("HIP_VISIBLE_DEVICES");
        if (mask != nullptr && *mask != '\0') devices = left_by(mask, devices, HIP_VERSION_MAJOR >= 6);
        return devices;
    }());
    return visible;
}

std::string serial_of(int device) {
    char text[17];
    (void)std::snprintf(text, sizeof text, "57a4d100000000%02x", static_cast<unsigned>(device) & 0xffu);
    return text;
}

}  // namespace standin
