// SPDX-License-Identifier: MIT
// host/pointer.cpp: the attributes of a pointer.
#include "entry.hpp"

namespace portamem::host {
namespace {

int type_of(const Allocation& record) {
    if (record.is_device_memory()) return pmhMemoryTypeDevice;
    return record.is_host_memory() ? pmhMemoryTypeHost : pmhMemoryTypeManaged;
}

}  // namespace
}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhPointerGetAttributes(pmhPointerAttributes* attributes, const void* ptr) {
    return enter("PointerGetAttributes", [&](State& state, Hold&) {
        require(attributes != nullptr, "attributes is null");
        void* address = const_cast<void*>(ptr);
        *attributes = {};
        if (const auto record = state.allocations.holding(ptr)) {
            attributes->type = type_of(*record);
            attributes->device = record->device;
            attributes->base = record->base;
            attributes->size = record->size;
            attributes->devicePointer = address;
            attributes->hostPointer =
                record->is_device_memory() && !state.config.device_is_host_accessible() ? nullptr : address;
            attributes->flags = record->is_host_memory() ? record->flags : 0;
        } else {
            attributes->type = pmhMemoryTypeUnregistered;
            attributes->device = pmhInvalidDeviceId;
            attributes->devicePointer = state.config.pageable_is_device_accessible() ? address : nullptr;
            attributes->hostPointer = address;
        }
    });
}

pmhError_t pmhPointerGetAttribute(int* value, int attribute, const void* ptr) {
    return enter("PointerGetAttribute", [&](State& state, Hold&) {
        require(value != nullptr, "value is null");
        require(attribute == pmhPointerAttributeIsLegacyIpcCapable, "unknown attribute of a pointer");
        require(state.allocations.holding(ptr) != nullptr, "the runtime does not know the pointer");
        *value = 0;  // the runtime shares nothing with other processes yet
    });
}
