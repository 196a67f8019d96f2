// SPDX-License-Identifier: MIT
// host/device.cpp: devices: identity, attributes, memory, limits and peers.
#include <cstdio>
#include <cstring>
#include <thread>

#include "entry.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

constexpr std::size_t pci_id_length = sizeof "ffff:00:00.0";
constexpr int texture_alignment = 512;

int processors() { return static_cast<int>(std::thread::hardware_concurrency()); }

int attribute_of(const Config& config, int attribute) {
    const bool coherent = config.model == Model::Coherent;
    const bool pageable = config.pageable_is_device_accessible();
    switch (attribute) {
        case pmhDevAttrMultiProcessorCount:
            return processors();
        case pmhDevAttrWarpSize:
            return 1;
        case pmhDevAttrTextureAlignment:
            return texture_alignment;
        case pmhDevAttrAsyncEngineCount:
            return 2;
        case pmhDevAttrIntegrated:
            return config.model == Model::Apu ? 1 : 0;
        case pmhDevAttrCanMapHostMemory:
        case pmhDevAttrUnifiedAddressing:
        case pmhDevAttrManagedMemory:
        case pmhDevAttrConcurrentManagedAccess:
        case pmhDevAttrMemoryPoolsSupported:
        case pmhDevAttrVirtualMemoryManagementSupported:
        case pmhDevAttrHostRegisterSupported:
        case pmhDevAttrCanUseHostPointerForRegisteredMem:
            return 1;
        case pmhDevAttrPageableMemoryAccess:
        case pmhDevAttrPageableMemoryAccessUsesHostPageTables:
            return pageable ? 1 : 0;
        case pmhDevAttrDirectManagedMemAccessFromHost:
            return coherent ? 1 : 0;
        case pmhDevAttrDirectDeviceMemAccessFromHost:
            return config.device_is_host_accessible() ? 1 : 0;
        case pmhDevAttrComputeCapabilityMajor:
        case pmhDevAttrComputeCapabilityMinor:
        case pmhDevAttrL2CacheSize:
        case pmhDevAttrStreamPrioritiesSupported:
        // The runtime shares nothing with other processes yet.
        case pmhDevAttrMemoryPoolSupportedHandleTypes:
        case pmhDevAttrHandleTypePosixFileDescriptorSupported:
        case pmhDevAttrHandleTypeFabricSupported:
        case pmhDevAttrIpcMemHandleSupported:
        case pmhDevAttrIpcEventSupport:
        // Host and devices are the same cores, so that all memory is coherent.
        case pmhDevAttrHostMallocNonCoherent:
            return 0;
        case pmhDevAttrHostMallocCoherent:
        // The heap of kernels never grows: its limit is one.
        case pmhDevAttrMallocHeapKind:
            return 1;
        // An APU has one memory only.
        case pmhDevAttrManagedMemoryMigrates:
            return config.model == Model::Apu ? 0 : 1;
        case pmhDevAttrXnack:
            refuse(pmhErrorNotSupported, "no model of the host runtime has a mode called XNACK");
        case pmhDevAttrHostNumaId:
            return -1;
        default:
            refuse(pmhErrorInvalidValue, "%d is not an attribute of a device", attribute);
    }
}

std::size_t& limit_of(Device& device, int limit) {
    if (limit < 0 || static_cast<std::size_t>(limit) >= device.limits.size())
        refuse(pmhErrorUnsupportedLimit, "%d is not a limit of a device", limit);
    return device.limits[static_cast<std::size_t>(limit)];
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhGetDeviceCount(int* count) {
    if (count != nullptr) *count = 0;
    return enter("GetDeviceCount", [&](State& state, Hold&) {
        require(count != nullptr, "count is null");
        *count = static_cast<int>(state.devices.size());
    });
}

pmhError_t pmhSetDevice(int device) {
    return enter("SetDevice", [&](State& state, Hold&) { this_thread().device = device_of(state, device).ordinal; });
}

pmhError_t pmhGetDevice(int* device) {
    return enter_unlocked("GetDevice", [&] {
        require(device != nullptr, "device is null");
        *device = this_thread().device;
    });
}

pmhError_t pmhDeviceGetAttribute(int* value, int attribute, int device) {
    return enter("DeviceGetAttribute", [&](State& state, Hold&) {
        require(value != nullptr, "value is null");
        (void)device_of(state, device);
        *value = attribute_of(state.config, attribute);
    });
}

pmhError_t pmhGetDeviceProperties(pmhDeviceProp* properties, int device) {
    return enter("GetDeviceProperties", [&](State& state, Hold&) {
        require(properties != nullptr, "properties is null");
        *properties = {};
        properties->totalGlobalMem = device_of(state, device).capacity;
        (void)std::snprintf(properties->name, sizeof properties->name, "portamem host device");
        (void)std::snprintf(properties->archName, sizeof properties->archName, "host");
        properties->multiProcessorCount = attribute_of(state.config, pmhDevAttrMultiProcessorCount);
        properties->warpSize = attribute_of(state.config, pmhDevAttrWarpSize);
    });
}

pmhError_t pmhDeviceGetUuid(unsigned char* uuid16, int device) {
    return enter("DeviceGetUuid", [&](State& state, Hold&) {
        require(uuid16 != nullptr, "uuid16 is null");
        unsigned char uuid[16] = {'p', 'o', 'r', 't', 'a', 'm', 'e', 'm', '-', 'h', 'o', 's', 't'};
        uuid[15] = static_cast<unsigned char>(device_of(state, device).ordinal);
        std::memcpy(uuid16, uuid, sizeof uuid);
    });
}

pmhError_t pmhDeviceGetPCIBusId(char* pci_bus_id, int length, int device) {
    return enter("DeviceGetPCIBusId", [&](State& state, Hold&) {
        const auto ordinal = static_cast<unsigned>(device_of(state, device).ordinal);
        require(pci_bus_id != nullptr && length >= static_cast<int>(pci_id_length), "the buffer is too short");
        // No machine has this domain, so that it cannot be taken for a real card's.
        (void)std::snprintf(pci_bus_id, pci_id_length, "ffff:00:%02x.0", ordinal & 0xffu);
    });
}

pmhError_t pmhMemGetInfo(size_t* free, size_t* total) {
    return enter("MemGetInfo", [&](State& state, Hold&) {
        require(free != nullptr && total != nullptr, "free or total is null");
        const Device& device = current_device(state);
        *total = device.capacity;
        *free = device.capacity > device.reserved ? device.capacity - device.reserved : 0;
    });
}

pmhError_t pmhDeviceSynchronize(void) {
    return enter("DeviceSynchronize", [&](State& state, Hold& hold) {
        const Device& device = current_device(state);
        for (const auto& stream : device.streams)
            if (stream->capture != nullptr) forbid_progress_query(state, *stream, "DeviceSynchronize");
        forbid_unsafe_call(state, "DeviceSynchronize");
        wait_for(hold, pending_work(device), end_of_device(device.ordinal));
        state.synchronized(hold, device.ordinal);
    });
}

pmhError_t pmhDeviceGetLimit(size_t* value, int limit) {
    return enter("DeviceGetLimit", [&](State& state, Hold&) {
        require(value != nullptr, "value is null");
        *value = limit_of(current_device(state), limit);
    });
}

pmhError_t pmhDeviceSetLimit(int limit, size_t value) {
    return enter("DeviceSetLimit", [&](State& state, Hold&) {
        Device& device = current_device(state);
        std::size_t& present = limit_of(device, limit);
        forbid_unsafe_call(state, "DeviceSetLimit");
        if (value > device.capacity)
            refuse(pmhErrorInvalidValue, "%zu bytes are more than the device's %zu", value, device.capacity);
        if (limit == pmhLimitMallocHeapSize && device.heap != nullptr)
            refuse(pmhErrorInvalidValue, "the heap of kernels is in use: its %zu bytes stay what they are", present);
        present = value;
    });
}

pmhError_t pmhDeviceCanAccessPeer(int* can_access, int device, int peer) {
    return enter("DeviceCanAccessPeer", [&](State& state, Hold&) {
        require(can_access != nullptr, "can_access is null");
        *can_access = device_of(state, device).ordinal != device_of(state, peer).ordinal ? 1 : 0;
    });
}

pmhError_t pmhDeviceEnablePeerAccess(int peer, unsigned flags) {
    return enter("DeviceEnablePeerAccess", [&](State& state, Hold&) {
        require(flags == 0, "unknown peer access flags");
        Device& device = current_device(state);
        if (device_of(state, peer).ordinal == device.ordinal)
            refuse(pmhErrorPeerAccessUnsupported, "device %d is not its own peer", peer);
        if (!device.peers.insert(peer).second)
            refuse(pmhErrorPeerAccessAlreadyEnabled, "device %d has access to device %d", device.ordinal, peer);
    });
}

pmhError_t pmhDeviceDisablePeerAccess(int peer) {
    return enter("DeviceDisablePeerAccess", [&](State& state, Hold&) {
        (void)device_of(state, peer);
        Device& device = current_device(state);
        if (device.peers.erase(peer) == 0)
            refuse(pmhErrorPeerAccessNotEnabled, "device %d has no access to device %d", device.ordinal, peer);
    });
}

pmhError_t pmhDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return enter("DeviceGetStreamPriorityRange", [&](State&, Hold&) {
        require(least != nullptr && greatest != nullptr, "least or greatest is null");
        *least = 0;
        *greatest = 0;
    });
}
