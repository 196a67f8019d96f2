// SPDX-License-Identifier: MIT
// portamem/rt/host/pointer.hpp: the pointer query. Contract: rt/api/pointer.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

PORTAMEM_RT_OPEN

static_assert(check::same(MemoryType::Unregistered, pmhMemoryTypeUnregistered));
static_assert(check::same(MemoryType::Host, pmhMemoryTypeHost));
static_assert(check::same(MemoryType::Device, pmhMemoryTypeDevice));
static_assert(check::same(MemoryType::Managed, pmhMemoryTypeManaged));
static_assert(check::same(PointerAttr::IsLegacyIpcCapable, pmhPointerAttributeIsLegacyIpcCapable));

inline Error_t PointerGetAttributes(PointerAttributes* attributes, const void* ptr) {
    if (attributes == nullptr) return Error_t::InvalidValue;
    *attributes = PointerAttributes{};
    if (ptr == nullptr) return Error_t::Success;
    pmhPointerAttributes native{};
    const Error_t error = answer(pmhPointerGetAttributes(&native, ptr));
    if (error != Error_t::Success) return error;
    attributes->type = static_cast<MemoryType>(native.type);
    attributes->device = native.device;
    attributes->base = native.base;
    attributes->nbytes = native.size;
    attributes->device_pointer = native.devicePointer;
    attributes->host_pointer = native.hostPointer;
    attributes->flags = native.flags;
    return Error_t::Success;
}

inline Error_t PointerGetAttribute(int* value, PointerAttr attr, const void* ptr) {
    if (value == nullptr || ptr == nullptr || attr != PointerAttr::IsLegacyIpcCapable) return Error_t::InvalidValue;
    return answer(pmhPointerGetAttribute(value, pmhPointerAttributeIsLegacyIpcCapable, ptr));
}

PORTAMEM_RT_CLOSE
