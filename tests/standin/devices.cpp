// SPDX-License-Identifier: MIT
// devices.cpp: devices: identity, properties, memory, limits and peers.
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

#include "attributes.hpp"
#include "masks.hpp"
#include "standin.hpp"

#if HIP_VERSION_MAJOR >= 6
#pragma GCC visibility push(default)  // which this header of the vendor's leaves out
#include <hip/hip_deprecated.h>
#undef hipGetDeviceProperties
extern "C" hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000* properties, int device);
#pragma GCC visibility pop
#define hipGetDeviceProperties hipGetDevicePropertiesR0600
#endif

using namespace standin;

namespace {

hipError_t valid_device(int device) {
    int warp_size = 0;
    return translate(pmhDeviceGetAttribute(&warp_size, pmhDevAttrWarpSize, device));
}

hipError_t total_memory(std::size_t* bytes, int device) {
    pmhDeviceProp properties;
    const pmhError_t error = pmhGetDeviceProperties(&properties, device);
    if (error == pmhSuccess) *bytes = properties.totalGlobalMem;
    return translate(error);
}

template <class Properties>
hipError_t fill(Properties* properties, int device) {
    if (properties == nullptr) return hipErrorInvalidValue;
    std::size_t total = 0;
    if (const hipError_t error = total_memory(&total, device); error != hipSuccess) return error;
    *properties = {};
    const Machine machine = this_machine();
    (void)std::snprintf(properties->name, sizeof properties->name, "%s", machine.name);
    (void)std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "%s", machine.arch);
    properties->totalGlobalMem = total;
    properties->major = machine.major;
    properties->minor = machine.minor;
    properties->warpSize = machine.warp_size;
    properties->multiProcessorCount = machine.multi_processors;
    properties->l2CacheSize = machine.l2_cache;
    properties->textureAlignment = static_cast<std::size_t>(machine.texture_alignment);
    properties->integrated = machine.integrated;
    properties->canMapHostMemory = 1;
    properties->managedMemory = 1;
    properties->concurrentManagedAccess = 1;
    properties->pageableMemoryAccess = machine.xnack;
    properties->pageableMemoryAccessUsesHostPageTables = 0;
    properties->isLargeBar = machine.large_bar;
    properties->pciDomainID = 0xffff;
    properties->pciDeviceID = device;
    return hipSuccess;
}

}  // namespace

hipError_t hipGetDeviceCount(int* count) {
    const pmhError_t error = pmhGetDeviceCount(count);
    return answer(error == pmhErrorNoDevice ? hipErrorNoDevice : translate(error));
}

hipError_t hipSetDevice(int device) { return answer(pmhSetDevice(device)); }

hipError_t hipGetDevice(int* device) { return answer(pmhGetDevice(device)); }

hipError_t hipDeviceGet(hipDevice_t* handle, int device) {
    if (handle == nullptr) return answer(hipErrorInvalidValue);
    const hipError_t error = valid_device(device);
    if (error == hipSuccess) *handle = device;
    return answer(error);
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
    if (name == nullptr || length <= 0) return answer(hipErrorInvalidValue);
    const hipError_t error = valid_device(device);
    if (error == hipSuccess) (void)std::snprintf(name, static_cast<std::size_t>(length), "%s", this_machine().name);
    return answer(error);
}

// The vendor's 16 bytes are 16 characters of its serial number.
hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
    if (uuid == nullptr) return answer(hipErrorInvalidValue);
    const hipError_t error = valid_device(device);
    if (error != hipSuccess) return answer(error);
    const std::string serial = serial_of(visible_devices()[static_cast<std::size_t>(device)]);
    std::memcpy(uuid->bytes, serial.data(), sizeof uuid->bytes);
    return answer(hipSuccess);
}

hipError_t hipDeviceTotalMem(std::size_t* bytes, hipDevice_t device) {
    return answer(bytes == nullptr ? hipErrorInvalidValue : total_memory(bytes, device));
}

hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
    if (major == nullptr || minor == nullptr) return answer(hipErrorInvalidValue);
    const hipError_t error = valid_device(device);
    if (error == hipSuccess) {
        *major = this_machine().major;
        *minor = this_machine().minor;
    }
    return answer(error);
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
    if (value == nullptr) return answer(hipErrorInvalidValue);
    if (const hipError_t error = valid_device(device); error != hipSuccess) return answer(error);
    if (attribute == hipDeviceAttributeTotalGlobalMem) {
        std::size_t total = 0;
        const hipError_t error = total_memory(&total, device);
        if (error == hipSuccess) *value = total > INT_MAX ? INT_MAX : static_cast<int>(total);
        return answer(error);
    }
    if (attribute == hipDeviceAttributePciDeviceId) {
        *value = device;
        return answer(hipSuccess);
    }
    return answer(attribute_of(attribute, value) ? hipSuccess : hipErrorInvalidValue);
}

// From 6.0 on the header's name is a macro for hipGetDevicePropertiesR0600.
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) { return answer(fill(properties, device)); }

#if HIP_VERSION_MAJOR >= 6
// Programs that were built before 6.0 call this by the old name, with the old structure.
hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000* properties, int device) {
    return answer(fill(properties, device));
}

#undef hipGetDeviceProperties
hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000* properties, int device) {
    return hipGetDevicePropertiesR0000(properties, device);
}
#endif

hipError_t hipDeviceGetPCIBusId(char* id, int length, int device) {
    return answer(pmhDeviceGetPCIBusId(id, length, device));
}

hipError_t hipDeviceGetByPCIBusId(int* device, const char* id) {
    unsigned domain = 0, bus = 0, slot = 0;
    if (device == nullptr || id == nullptr || std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return answer(hipErrorInvalidValue);
    int count = 0;
    const pmhError_t error = pmhGetDeviceCount(&count);
    if (error != pmhSuccess) return answer(error);
    if (domain != 0xffff || bus != 0 || static_cast<int>(slot) >= count) return answer(hipErrorInvalidDevice);
    *device = static_cast<int>(slot);
    return answer(hipSuccess);
}

hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total) { return answer(pmhMemGetInfo(free, total)); }

// Up to 6.2 the heap limit reads as the whole memory, whatever was set (ROCm/clr hipamd/src/hip_device_runtime.cpp).
// It is the only one before 5.3.
hipError_t hipDeviceGetLimit(std::size_t* value, hipLimit_t limit) {
    if (value == nullptr) return answer(hipErrorInvalidValue);
    const bool is_known = HIP_VERSION >= 50300000 ? limit != hipLimitPrintfFifoSize : limit == hipLimitMallocHeapSize;
    if (!is_known) return answer(hipErrorUnsupportedLimit);
    if (limit != hipLimitMallocHeapSize || HIP_VERSION >= 60300000)
        return answer(pmhDeviceGetLimit(value, static_cast<int>(limit)));
    int device = 0;
    const pmhError_t error = pmhGetDevice(&device);
    return answer(error == pmhSuccess ? total_memory(value, device) : translate(error));
}

#if HIP_VERSION >= 50300000
hipError_t hipDeviceSetLimit(hipLimit_t limit, std::size_t value) {
    if (limit == hipLimitPrintfFifoSize) return answer(hipErrorUnsupportedLimit);
    return answer(pmhDeviceSetLimit(static_cast<int>(limit), value));
}
#endif

hipError_t hipDeviceCanAccessPeer(int* can_access, int device, int peer) {
    return answer(pmhDeviceCanAccessPeer(can_access, device, peer));
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    return answer(pmhDeviceEnablePeerAccess(peer, flags));
}

hipError_t hipDeviceDisablePeerAccess(int peer) { return answer(pmhDeviceDisablePeerAccess(peer)); }
