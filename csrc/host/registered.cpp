// SPDX-License-Identifier: MIT
// host/registered.cpp: page-locking of the caller's memory, and the device's view of host memory.
#include <vector>

#include "entry.hpp"
#include "kernel.hpp"
#include "order_hooks.hpp"
#include "pages.hpp"

using namespace portamem::host;

namespace {

// Whether portamem itself asks about exactly this memory.
bool is_asked_about(const Allocation& record) {
    const auto [ranges, count] = portamem::order::Call::asked_about();
    return count == 1 && ranges->ptr == record.base && ranges->nbytes == record.size;
}

}  // namespace

pmhError_t pmhHostRegister(void* ptr, size_t size, unsigned flags) {
    return enter("HostRegister", [&](State& state, Hold&) {
        constexpr unsigned known =
            pmhHostRegisterPortable | pmhHostRegisterMapped | pmhHostRegisterIoMemory | pmhHostRegisterReadOnly;
        require(ptr != nullptr && size != 0, "there is nothing to register");
        require((flags & ~known) == 0, "unknown registration flags");
        require(size - 1 <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(ptr), "the range wraps around");
        forbid_unsafe_call(state, "HostRegister");
        if (const auto other = state.allocations.overlapping(ptr, size)) {
            if (other->kind == Kind::Registered)
                refuse(pmhErrorHostMemoryAlreadyRegistered, "the range overlaps one registered at %p with %zu bytes",
                       static_cast<void*>(other->base), other->size);
            refuse(pmhErrorInvalidValue, "the runtime itself gave this memory");
        }
        require(!state.virtual_memory.is_reserved(ptr, size), "the runtime has reserved these addresses");
        refuse_heap(state, "HostRegister", ptr, size);
        if (!has_pages(ptr, size))
            refuse(pmhErrorInvalidValue, "not all of the %zu bytes at %p are memory that this process can read", size,
                   ptr);
        auto record = std::make_shared<Allocation>();
        record->kind = Kind::Registered;
        record->base = static_cast<char*>(ptr);
        record->alias = record->base;
        record->size = size;
        record->device = this_thread().device;
        record->flags = flags;
        state.lock_pages(size);
        state.allocations.insert(std::move(record));
        note_new(ptr, size);
    });
}

pmhError_t pmhHostUnregister(void* ptr) {
    return enter("HostUnregister", [&](State& state, Hold& hold) {
        require(ptr != nullptr, "the address is null");
        forbid_unsafe_call(state, "HostUnregister");
        const auto record = state.allocations.starting_at(ptr);
        if (record == nullptr || record->kind != Kind::Registered) {
            if (state.allocations.holding(ptr) == nullptr)
                refuse(pmhErrorHostMemoryNotRegistered, "%p is not registered", ptr);
            refuse(pmhErrorInvalidValue, "%p is not the address that was registered", ptr);
        }
        state.allocations.erase(*record);
        state.locked -= record->size;
        // If the pages are portamem's own and go with the registration, this is a free like any other.
        const bool is_free = is_asked_about(*record);
        if (is_free) note_free(record->base, record->size);
        // Queued copies use the caller's memory, which may be gone once this returns.
        std::vector<Point> work;
        for (const auto& device : state.devices)
            for (Point& point : pending_work(*device)) work.push_back(std::move(point));
        wait_for(hold, work, end_of_device(-1));
        if (!is_free) note_gone(record->base, record->size);
    });
}

pmhError_t pmhHostGetDevicePointer(void** device_ptr, void* host_ptr, unsigned flags) {
    return enter("HostGetDevicePointer", [&](State& state, Hold&) {
        require(device_ptr != nullptr && flags == 0, "device_ptr is null, or there are flags");
        const auto record = state.allocations.holding(host_ptr);
        if (record == nullptr || !record->is_host_memory())
            refuse(pmhErrorInvalidValue, "%p is neither pinned nor registered", host_ptr);
        *device_ptr = host_ptr;
    });
}

pmhError_t pmhHostGetFlags(unsigned* flags, void* host_ptr) {
    return enter("HostGetFlags", [&](State& state, Hold&) {
        require(flags != nullptr, "flags is null");
        const auto record = state.allocations.holding(host_ptr);
        if (record == nullptr || record->kind != Kind::Pinned)
            refuse(pmhErrorInvalidValue, "%p is not memory of HostMalloc", host_ptr);
        *flags = record->flags | pmhHostMallocMapped;  // with unified addresses all pinned memory is mapped
    });
}
