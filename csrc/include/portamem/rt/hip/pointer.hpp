// SPDX-License-Identifier: MIT
// portamem/rt/hip/pointer.hpp: the pointer query. Contract: rt/api/pointer.hpp.
#pragma once

#include "portamem/rt/hip/types.hpp"

#if defined(__HIP_PLATFORM_NVIDIA__)
// HIP's wrapper there answers InvalidValue for managed memory and leaves out the flags.
#include "portamem/rt/cuda/pointer.hpp"
#else

PORTAMEM_RT_OPEN

/// The values were renumbered in 6.0, and the field was called memoryType before. Managed memory had no value of its
/// own then, but the flag beside it.
inline MemoryType memory_type(const hipPointerAttribute_t& native) {
    if (native.isManaged != 0) return MemoryType::Managed;
#if HIP_VERSION_MAJOR >= 6
    switch (native.type) {
        case hipMemoryTypeManaged:
            return MemoryType::Managed;
#else
    switch (native.memoryType) {
#endif
        case hipMemoryTypeHost:
            return MemoryType::Host;
        case hipMemoryTypeDevice:
            return MemoryType::Device;
        default:
            return MemoryType::Unregistered;
    }
}

/// Whether the current device reaches memory that the runtime does not know: where it retries page faults.
inline bool reaches_unknown_memory() {
    int device = 0;
    int value = 0;
    return answer(hipGetDevice(&device)) == Error_t::Success &&
           answer(hipDeviceGetAttribute(&value, hipDeviceAttributePageableMemoryAccess, device)) == Error_t::Success &&
           value != 0;
}

inline Error_t PointerGetAttributes(PointerAttributes* attributes, const void* ptr) {
    if (attributes == nullptr) return Error_t::InvalidValue;
    *attributes = PointerAttributes{};
    if (ptr == nullptr) return Error_t::Success;
    hipPointerAttribute_t native{};
    const Error_t error = answer(hipPointerGetAttributes(&native, ptr));
    // Before 6.0 this is how the library says that it does not know a pointer.
    const bool unknown = error == Error_t::InvalidValue;
    if (error != Error_t::Success && !unknown) return error;
    attributes->type = unknown ? MemoryType::Unregistered : memory_type(native);
    if (attributes->type == MemoryType::Unregistered) {
        attributes->host_pointer = const_cast<void*>(ptr);
        // The library says nothing of it, in any version. Devices that reach it have no other address for it.
        if (reaches_unknown_memory()) attributes->device_pointer = attributes->host_pointer;
        return Error_t::Success;
    }
    attributes->device = native.device;
    attributes->device_pointer = native.devicePointer;
    attributes->host_pointer = native.hostPointer;
    attributes->flags = native.allocationFlags & (HostMallocPortable | HostMallocMapped | HostMallocWriteCombined);
    hipDeviceptr_t base = nullptr;
    std::size_t nbytes = 0;
    const Error_t known = answer(hipMemGetAddressRange(&base, &nbytes, const_cast<void*>(ptr)));
    if (known == Error_t::Success) {
        attributes->base = base;
        attributes->nbytes = nbytes;
    }
    return Error_t::Success;
}

inline Error_t PointerGetAttribute(int* value, PointerAttr attr, const void* ptr) {
    if (value == nullptr || ptr == nullptr || attr != PointerAttr::IsLegacyIpcCapable) return Error_t::InvalidValue;
    std::uint64_t flag = 0;
    const Error_t error =
        answer(hipPointerGetAttribute(&flag, HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE, const_cast<void*>(ptr)));
    if (error == Error_t::Success) *value = flag != 0;
    // Most versions refuse the attribute, and none tells that from a pointer that it does not know.
    return error == Error_t::InvalidValue ? Error_t::NotSupported : error;
}

PORTAMEM_RT_CLOSE

#endif
