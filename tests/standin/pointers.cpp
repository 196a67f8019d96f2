// SPDX-License-Identifier: MIT
// pointers.cpp: what a pointer is. The numbers of the memory types are this header's: before 6.0 host memory was 0 and
// device memory 1, and managed memory had no number of its own.
#include "records.hpp"
#include "standin.hpp"

using namespace standin;
using portamem::host::Kind;

namespace {

#if HIP_VERSION_MAJOR >= 6
auto& type_field(hipPointerAttribute_t& attributes) { return attributes.type; }
constexpr auto managed_type = hipMemoryTypeManaged;
#else
auto& type_field(hipPointerAttribute_t& attributes) { return attributes.memoryType; }
constexpr auto managed_type = hipMemoryTypeHost;  // isManaged tells it apart
#endif

hipMemoryType type_of(const Known& memory) {
    if (memory.kind == Kind::Managed) return managed_type;
    return memory.is_device_memory() ? hipMemoryTypeDevice : hipMemoryTypeHost;
}

hipError_t unknown_pointer(hipPointerAttribute_t* attributes, const void* ptr) {
    if (ptr == nullptr ? has(Quirk::NullPointerRefused) : has(Quirk::PlainHostPointerRefused))
        return hipErrorInvalidValue;
#if HIP_VERSION_MAJOR >= 6
    *attributes = {};
    attributes->type = hipMemoryTypeUnregistered;
    attributes->device = hipInvalidDeviceId;
    return hipSuccess;
#else
    (void)attributes;
    return hipErrorInvalidValue;  // the quirks change nothing: no number of this version means "unregistered"
#endif
}

hipError_t runtime_works() {
    int device = 0;
    return translate(pmhGetDevice(&device));
}

hipError_t attributes_of(hipPointerAttribute_t* attributes, const void* ptr) {
    if (attributes == nullptr) return hipErrorInvalidValue;
    pmhPointerAttributes found;
    if (const pmhError_t error = pmhPointerGetAttributes(&found, ptr); error != pmhSuccess) return translate(error);
    const auto memory = known(ptr);
    if (!memory) return unknown_pointer(attributes, ptr);
    *attributes = {};
    type_field(*attributes) = type_of(*memory);
    attributes->device = memory->device;
    attributes->devicePointer = found.devicePointer;
    attributes->hostPointer = found.hostPointer;
    attributes->isManaged = memory->kind == Kind::Managed;
    attributes->allocationFlags = memory->flags;
    return hipSuccess;
}

template <class Value>
hipError_t store(void* data, Value value) {
    *static_cast<Value*>(data) = value;
    return hipSuccess;
}

hipError_t one_attribute(void* data, hipPointer_attribute attribute, void* ptr) {
    if (data == nullptr) return hipErrorInvalidValue;
    if (const hipError_t error = runtime_works(); error != hipSuccess) return error;
    const auto memory = known(ptr);
    if (!memory) return hipErrorInvalidValue;
    switch (attribute) {
        case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return store<unsigned>(data, type_of(*memory));
        case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return store(data, ptr);
        case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
            return memory->is_device_memory() ? hipErrorInvalidValue : store(data, ptr);
        case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
            return store<int>(data, memory->kind == Kind::Managed);
        case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return store(data, memory->device);
        case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return store<void*>(data, memory->base);
        case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
            return store(data, memory->size);
        case HIP_POINTER_ATTRIBUTE_MAPPED:
            return store<int>(data, 1);
        case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
        default:
            return hipErrorInvalidValue;
    }
}

}  // namespace

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr) {
    return answer(attributes_of(attributes, ptr));
}

hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute, hipDeviceptr_t ptr) {
    return answer(one_attribute(data, attribute, ptr));
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, std::size_t* size, hipDeviceptr_t ptr) {
    if (base == nullptr || size == nullptr) return answer(hipErrorInvalidValue);
    if (const hipError_t error = runtime_works(); error != hipSuccess) return answer(error);
    const auto memory = known(ptr);
    if (!memory) return answer(hipErrorNotFound);
    *base = memory->base;
    *size = memory->size;
    return answer(hipSuccess);
}

hipError_t hipMemPtrGetInfo(void* ptr, std::size_t* size) {
    if (size == nullptr || ptr == nullptr) return answer(hipErrorInvalidValue);
    const auto memory = known(ptr);
    if (!memory) return answer(hipErrorInvalidValue);
    *size = memory->size;
    return answer(hipSuccess);
}
