// SPDX-License-Identifier: MIT
// portamem/rt/cuda/pointer.hpp: the pointer query. Contract: rt/api/pointer.hpp.
//
// HIP on the NVIDIA platform includes this file too: HIP's wrapper there answers InvalidValue for managed memory and
// leaves out the flags.
#pragma once

PORTAMEM_RT_OPEN

static_assert(check::same(MemoryType::Unregistered, cudaMemoryTypeUnregistered));
static_assert(check::same(MemoryType::Host, cudaMemoryTypeHost));
static_assert(check::same(MemoryType::Device, cudaMemoryTypeDevice));
static_assert(check::same(MemoryType::Managed, cudaMemoryTypeManaged));

inline Error_t PointerGetAttributes(PointerAttributes* attributes, const void* ptr) {
    if (attributes == nullptr) return Error_t::InvalidValue;
    *attributes = PointerAttributes{};
    if (ptr == nullptr) return Error_t::Success;
    cudaPointerAttributes native{};
    const Error_t error = answer(cudaPointerGetAttributes(&native, ptr));
    if (error != Error_t::Success) return error;
    attributes->type = static_cast<MemoryType>(native.type);
    attributes->device_pointer = native.devicePointer;
    if (attributes->type == MemoryType::Unregistered) {
        attributes->host_pointer = const_cast<void*>(ptr);
        return Error_t::Success;
    }
    attributes->device = native.device;
    attributes->host_pointer = native.hostPointer;
    // Where the device is current. To a thread without a context, or with that of a device that does not reach the
    // memory, the runtime tells no device pointer, and the driver no range. Asking for flags gives a thread a context.
    DeviceState_t saved{};
    if (driver::push_device(native.device, &saved) != Error_t::Success) return Error_t::Success;
    if (saved.switched && answer(cudaPointerGetAttributes(&native, ptr)) == Error_t::Success) {
        attributes->device_pointer = native.devicePointer;
    }
    driver::mem_get_address_range(&attributes->base, &attributes->nbytes, ptr);
    unsigned flags = 0;
    if (attributes->type == MemoryType::Host &&
        answer(cudaHostGetFlags(&flags, const_cast<void*>(ptr))) == Error_t::Success) {
        attributes->flags = flags;
    }
    (void)driver::pop_device(saved);
    return Error_t::Success;
}

inline Error_t PointerGetAttribute(int* value, PointerAttr attr, const void* ptr) {
    if (value == nullptr || ptr == nullptr || attr != PointerAttr::IsLegacyIpcCapable) return Error_t::InvalidValue;
    return driver::pointer_get_flag(value, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, ptr);
}

PORTAMEM_RT_CLOSE
