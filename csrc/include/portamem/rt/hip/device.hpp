// SPDX-License-Identifier: MIT
// portamem/rt/hip/device.hpp: devices, limits and peers. Contracts: rt/api/device.hpp.
#pragma once

#include <cstdio>
#include <cstring>

#include "portamem/rt/hip/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(CpuDeviceId, hipCpuDeviceId) && check::same(InvalidDeviceId, hipInvalidDeviceId));
static_assert(check::same(Limit::PrintfFifoSize, hipLimitPrintfFifoSize));
static_assert(check::same(Limit::MallocHeapSize, hipLimitMallocHeapSize));

/// The vendor's number of an attribute, or -1 where it, or the version of these headers, has none.
constexpr int native_attribute(DeviceAttr attr) {
    switch (attr) {
        case DeviceAttr::MultiProcessorCount:
            return hipDeviceAttributeMultiprocessorCount;
        case DeviceAttr::WarpSize:
            return hipDeviceAttributeWarpSize;
        case DeviceAttr::ComputeCapabilityMajor:
            return hipDeviceAttributeComputeCapabilityMajor;
        case DeviceAttr::ComputeCapabilityMinor:
            return hipDeviceAttributeComputeCapabilityMinor;
        case DeviceAttr::L2CacheSize:
            return hipDeviceAttributeL2CacheSize;
        case DeviceAttr::TextureAlignment:
            return hipDeviceAttributeTextureAlignment;
        case DeviceAttr::AsyncEngineCount:
            return hipDeviceAttributeAsyncEngineCount;
        case DeviceAttr::Integrated:
            return hipDeviceAttributeIntegrated;
        case DeviceAttr::CanMapHostMemory:
            return hipDeviceAttributeCanMapHostMemory;
        case DeviceAttr::UnifiedAddressing:
            return hipDeviceAttributeUnifiedAddressing;
        case DeviceAttr::ManagedMemory:
            return hipDeviceAttributeManagedMemory;
        case DeviceAttr::ConcurrentManagedAccess:
            return hipDeviceAttributeConcurrentManagedAccess;
        case DeviceAttr::PageableMemoryAccess:
            return hipDeviceAttributePageableMemoryAccess;
        case DeviceAttr::PageableMemoryAccessUsesHostPageTables:
            return hipDeviceAttributePageableMemoryAccessUsesHostPageTables;
        case DeviceAttr::DirectManagedMemAccessFromHost:
            return hipDeviceAttributeDirectManagedMemAccessFromHost;
        case DeviceAttr::MemoryPoolsSupported:
            return hipDeviceAttributeMemoryPoolsSupported;
#if HIP_VERSION_MAJOR >= 6
        case DeviceAttr::HostRegisterSupported:
            return hipDeviceAttributeHostRegisterSupported;
#else
        case DeviceAttr::HostRegisterSupported:
            return -1;
#endif
        case DeviceAttr::CanUseHostPointerForRegisteredMem:
            return hipDeviceAttributeCanUseHostPointerForRegisteredMem;
        case DeviceAttr::StreamPrioritiesSupported:
            return hipDeviceAttributeStreamPrioritiesSupported;
#if HIP_VERSION >= 50700000
        case DeviceAttr::VirtualMemoryManagementSupported:
            return hipDeviceAttributeVirtualMemoryManagementSupported;
#else
        case DeviceAttr::VirtualMemoryManagementSupported:
            return -1;
#endif
        // The runtime maps device memory for the host where the whole of it is behind the BAR.
        case DeviceAttr::DirectDeviceMemAccessFromHost:
            return hipDeviceAttributeIsLargeBar;
        case DeviceAttr::HostNumaId:
            return -1;
#if HIP_VERSION_MAJOR >= 6
        case DeviceAttr::MemoryPoolSupportedHandleTypes:
            return hipDeviceAttributeMemoryPoolSupportedHandleTypes;
#else
        case DeviceAttr::MemoryPoolSupportedHandleTypes:
            return -1;
#endif
        case DeviceAttr::HandleTypePosixFileDescriptorSupported:
        case DeviceAttr::HandleTypeFabricSupported:
        case DeviceAttr::IpcMemHandleSupported:
        case DeviceAttr::IpcEventSupport:
            return -1;
        case DeviceAttr::Xnack:
        case DeviceAttr::ManagedMemoryMigrates:
        case DeviceAttr::HostMallocCoherent:
        case DeviceAttr::HostMallocNonCoherent:
        case DeviceAttr::MallocHeapKind:
            return -1;
    }
    return -1;
}

inline Error_t attribute_by_number(int* value, int native, int device) {
    const Error_t error = answer(hipDeviceGetAttribute(value, static_cast<hipDeviceAttribute_t>(native), device));
    // With a place to write to, InvalidValue means that the library has no such attribute: headers name more of them.
    return error == Error_t::InvalidValue ? Error_t::NotSupported : error;
}

/// A value that is the same for every device; the ordinal is checked all the same.
inline Error_t attribute_of_all(int* value, int constant, int device) {
    int warp_size = 0;
    const Error_t error = attribute_by_number(&warp_size, hipDeviceAttributeWarpSize, device);
    if (error == Error_t::Success) *value = constant;
    return error;
}

inline Error_t managed_memory_migrates(int* value, int device) {
    int concurrent = 0;
    int integrated = 0;
    int retries_faults = 1;
    Error_t error = attribute_by_number(&concurrent, hipDeviceAttributeConcurrentManagedAccess, device);
    if (error == Error_t::Success) error = attribute_by_number(&integrated, hipDeviceAttributeIntegrated, device);
#if !defined(__HIP_PLATFORM_NVIDIA__)
    // Managed memory of a device that does not retry faults stays on the host (HIP's manual, unified memory).
    if (error == Error_t::Success) {
        error = attribute_by_number(&retries_faults, hipDeviceAttributePageableMemoryAccess, device);
    }
#endif
    if (error == Error_t::Success) *value = concurrent != 0 && integrated == 0 && retries_faults != 0;
    return error;
}

#if defined(__HIP_PLATFORM_NVIDIA__)
/// What HIP's header there has no name for, or none in older versions, by CUDA's number; -1 for the rest.
constexpr int cuda_attribute(DeviceAttr attr) {
    switch (attr) {
        case DeviceAttr::HostRegisterSupported:
            return cudaDevAttrHostRegisterSupported;
        case DeviceAttr::VirtualMemoryManagementSupported:
            return CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        case DeviceAttr::MemoryPoolSupportedHandleTypes:
            return cudaDevAttrMemoryPoolSupportedHandleTypes;
        case DeviceAttr::HandleTypePosixFileDescriptorSupported:
            return CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
        case DeviceAttr::IpcMemHandleSupported:
        case DeviceAttr::IpcEventSupport:
            return cudaDevAttrIpcEventSupport;
        default:
            return -1;
    }
}
#else
/// The name's last part: xnack+ or xnack-; a device that has no such mode does not mention it.
inline Error_t xnack_of_name(int* value, int device) {
    hipDeviceProp_t native{};
    const Error_t error = answer(hipGetDeviceProperties(&native, device));
    if (error != Error_t::Success) return error;
    native.gcnArchName[sizeof native.gcnArchName - 1] = '\0';
    const bool on = std::strstr(native.gcnArchName, ":xnack+") != nullptr;
    const bool off = std::strstr(native.gcnArchName, ":xnack-") != nullptr;
    if (!on && !off) return Error_t::NotSupported;
    *value = on;
    return Error_t::Success;
}
#endif

inline Error_t GetDeviceCount(int* count) {
    if (count == nullptr) return Error_t::InvalidValue;
    *count = 0;
    return answer(hipGetDeviceCount(count));
}

inline Error_t SetDevice(int device) { return answer(hipSetDevice(device)); }

inline Error_t GetDevice(int* device) { return answer(hipGetDevice(device)); }

inline Error_t PushDevice(int device, DeviceState_t* saved) {
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::push_device(device, saved);
#else
    int current = InvalidDeviceId;
    *saved = DeviceState_t{};
    Error_t error = GetDevice(&current);
    if (error != Error_t::Success || current == device) return error;
    error = SetDevice(device);
    if (error == Error_t::Success) *saved = DeviceState_t{true, current};
    return error;
#endif
}

inline Error_t PopDevice(DeviceState_t saved) {
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::pop_device(saved);
#else
    return saved.switched ? SetDevice(saved.device) : Error_t::Success;
#endif
}

inline Error_t DeviceGetAttribute(int* value, DeviceAttr attr, int device) {
    if (value == nullptr) return Error_t::InvalidValue;
    if (attr == DeviceAttr::ManagedMemoryMigrates) return managed_memory_migrates(value, device);
#if defined(__HIP_PLATFORM_NVIDIA__)
    if (attr == DeviceAttr::HostMallocCoherent) return attribute_of_all(value, 1, device);
    if (attr == DeviceAttr::HostMallocNonCoherent) return attribute_of_all(value, 0, device);
    const auto heap = MallocHeapKind::Limit;
    if (const int number = cuda_attribute(attr); number >= 0) {
        const Error_t error = answer(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(number), device));
        return error == Error_t::InvalidValue ? Error_t::NotSupported : error;
    }
#else
    if (attr == DeviceAttr::Xnack) return xnack_of_name(value, device);
    if (attr == DeviceAttr::HostMallocCoherent) {
        return attribute_by_number(value, hipDeviceAttributeFineGrainSupport, device);
    }
    if (attr == DeviceAttr::HostMallocNonCoherent) return attribute_of_all(value, 1, device);
    const auto heap = MallocHeapKind::Initial;
#endif
    if (attr == DeviceAttr::MallocHeapKind) return attribute_of_all(value, static_cast<int>(heap), device);
    const int native = native_attribute(attr);
    return native < 0 ? Error_t::NotSupported : attribute_by_number(value, native, device);
}

inline Error_t GetDeviceProperties(DeviceProperties* properties, int device) {
    if (properties == nullptr) return Error_t::InvalidValue;
    hipDeviceProp_t native{};
    const Error_t error = answer(hipGetDeviceProperties(&native, device));
    if (error != Error_t::Success) return error;
    *properties = DeviceProperties{};
    std::snprintf(properties->name, sizeof properties->name, "%s", native.name);
#if defined(__HIP_PLATFORM_NVIDIA__)
    std::snprintf(properties->arch, sizeof properties->arch, "sm_%d%d", native.major, native.minor);
#else
    std::snprintf(properties->arch, sizeof properties->arch, "%.*s", static_cast<int>(sizeof properties->arch) - 1,
                  native.gcnArchName);
#endif
    properties->total_global_mem = native.totalGlobalMem;
    properties->compute_capability_major = native.major;
    properties->compute_capability_minor = native.minor;
    properties->multi_processor_count = native.multiProcessorCount;
    properties->warp_size = native.warpSize;
    return Error_t::Success;
}

inline Error_t DeviceGetUuid(unsigned char* uuid16, int device) {
    if (uuid16 == nullptr) return Error_t::InvalidValue;
#if defined(__HIP_PLATFORM_NVIDIA__)
    return driver::device_get_uuid(uuid16, device);
#else
    hipDevice_t handle{};
    hipUUID uuid{};
    Error_t error = answer(hipDeviceGet(&handle, device));
    if (error == Error_t::Success) error = answer(hipDeviceGetUuid(&uuid, handle));
    if (error == Error_t::Success) std::memcpy(uuid16, uuid.bytes, sizeof uuid.bytes);
    return error;
#endif
}

inline Error_t DeviceGetPCIBusId(char* pci_bus_id, int length, int device) {
    return answer(hipDeviceGetPCIBusId(pci_bus_id, length, device));
}

inline Error_t MemGetInfo(std::size_t* free, std::size_t* total) { return answer(hipMemGetInfo(free, total)); }

inline Error_t DeviceSynchronize() { return answer(hipDeviceSynchronize()); }

inline Error_t DeviceGetLimit(std::size_t* value, Limit limit) {
    return answer(hipDeviceGetLimit(value, static_cast<hipLimit_t>(limit)));
}

inline Error_t DeviceSetLimit([[maybe_unused]] Limit limit, [[maybe_unused]] std::size_t value) {
#if HIP_VERSION >= 50300000 || defined(__HIP_PLATFORM_NVIDIA__)
    return answer(hipDeviceSetLimit(static_cast<hipLimit_t>(limit), value));
#else
    return Error_t::NotSupported;
#endif
}

inline Error_t DeviceCanAccessPeer(int* can_access, int device, int peer) {
    return answer(hipDeviceCanAccessPeer(can_access, device, peer));
}

inline Error_t DeviceEnablePeerAccess(int peer) { return answer(hipDeviceEnablePeerAccess(peer, 0)); }

inline Error_t DeviceDisablePeerAccess(int peer) { return answer(hipDeviceDisablePeerAccess(peer)); }

inline Error_t DeviceGetStreamPriorityRange(int* least, int* greatest) {
    return answer(hipDeviceGetStreamPriorityRange(least, greatest));
}

PORTAMEM_RT_CLOSE
