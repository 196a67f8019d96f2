// SPDX-License-Identifier: MIT
// python/dlpack.cpp: the DLPack devices by which consumers may see memory.
#include "dlpack.hpp"

#include <algorithm>
#include <iterator>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {
namespace dlpack {

namespace {

constexpr const char* kTypeNames[] = {
    nullptr,   "CPU",  "CUDA",     "page-locked CUDA host", "OpenCL",    nullptr,        nullptr,  "Vulkan",
    "Metal",   "VPI",  "ROCm",     "page-locked ROCm host", "extension", "CUDA managed", "oneAPI", "WebGPU",
    "Hexagon", "MAIA", "Trainium",
};

// Asks the runtime for the type of memory, because the kind of foreign memory says nothing.
rt::MemoryType type_of(const Buffer& memory) {
    const MemoryTraits& traits = memory.traits();
    const auto otherwise = traits.is_host_memory ? rt::MemoryType::Unregistered : rt::MemoryType::Device;
    const rt::MemoryType type = memory.address() == nullptr ? otherwise : pointer_info(memory.address()).type;
    return type == rt::MemoryType::Unregistered ? otherwise : type;
}

}  // namespace

std::string to_text(const Device& device) {
    const bool known = device.type > 0 && device.type < static_cast<int>(std::size(kTypeNames));
    const char* name = known ? kTypeNames[device.type] : nullptr;
    return (name != nullptr ? std::string(name) + " memory" : "memory of an unknown kind of device") +
           " (DLPack device " + std::to_string(device.type) + ", " + std::to_string(device.id) + ")";
}

void Devices::add(int type, int id) noexcept {
    const Device device{type, type == rt::DlpackTypes.device && type != rt::DlpackCpu ? id : 0};
    if (!has(device)) all_[count_++] = device;
}

bool Devices::has(const Device& device) const noexcept { return std::find(begin(), end(), device) != end(); }

Devices devices_of(const Buffer& memory) {
    const MemoryTraits& traits = memory.traits();
    Devices devices;
    // Where the backend's own types are the CPU's, they are true only for memory that the CPU reaches.
    const auto add = [&](int type, bool reached = true) {
        if (type == rt::DlpackCpu ? traits.host_accessible : reached) devices.add(type, traits.device);
    };
    const auto host = [&](int type) {
        add(type);
        add(rt::DlpackCpu);
        add(rt::DlpackTypes.device, traits.device_accessible);
    };
    const auto device = [&](int type) {
        add(type);
        add(rt::DlpackTypes.device);
        add(rt::DlpackCpu);
    };
    switch (traits.kind) {
        case ResourceKind::Device:
        case ResourceKind::Async:
        case ResourceKind::Virtual:
            device(rt::DlpackTypes.device);
            break;
        case ResourceKind::Managed:
            device(rt::DlpackTypes.managed);
            break;
        case ResourceKind::Pinned:
        case ResourceKind::Registered:
            host(rt::DlpackTypes.pinned);
            break;
        case ResourceKind::System:
            host(rt::DlpackCpu);
            break;
        case ResourceKind::Foreign:
            switch (type_of(memory)) {
                case rt::MemoryType::Device:
                    device(rt::DlpackTypes.device);
                    break;
                case rt::MemoryType::Managed:
                    device(rt::DlpackTypes.managed);
                    break;
                case rt::MemoryType::Host:
                    host(rt::DlpackTypes.pinned);
                    break;
                case rt::MemoryType::Unregistered:
                    host(rt::DlpackCpu);
                    break;
            }
            break;
    }
    return devices;
}

}  // namespace dlpack
}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
