// SPDX-License-Identifier: MIT
// portamem/managed.hpp: moving managed memory, and system memory that the device reaches, and advising on it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

/// Returns whether memory of these traits moves between host and device.
inline bool is_movable(const MemoryTraits& traits) {
    return traits.kind == ResourceKind::Managed || (traits.kind == ResourceKind::System && traits.device_accessible);
}

/// Returns the error text for memory that does not move.
inline std::string not_movable(ResourceKind kind, int device, const char* whose) {
    return std::string(
               "only managed memory can be prefetched, advised or asked, and system memory where the device has "
               "pageable memory access; ") +
           whose + to_string(kind) + " memory" +
           (kind == ResourceKind::System ? ", which device " + std::to_string(device) + " does not reach" : "") +
           ": take a ManagedMemoryResource";
}

inline void require_movable(const Span& span) {
    if (!span.allocation)
        throw std::invalid_argument(
            "only memory of a resource can be prefetched, advised or asked; this is host "
            "memory: take a ManagedMemoryResource");
    const MemoryTraits& traits = span.allocation->traits();
    if (is_movable(traits) || traits.kind == ResourceKind::Foreign) return;  // the runtime decides for foreign memory
    throw std::invalid_argument(not_movable(traits.kind, traits.device, "this is "));
}

inline void require_device(const rt::Location& location) {
    if (location.type == rt::LocationType::Device) (void)Device(location.id);
}

}  // namespace detail

/// Moves the pages to `location`; where the memory does not migrate (ManagedMode), that may have no effect. It takes
/// managed memory, system memory that the device reaches, and foreign memory, for which the runtime decides. With a
/// stream it queues the move and returns an event; with a null stream the move is done on return, and the result is
/// null. The order is as for fill. Throws std::invalid_argument for other memory, for a device that does not exist and
/// for a stream that is closed or captured, and Error if the runtime refuses.
inline std::shared_ptr<Event> prefetch(const Span& span, rt::Location location,
                                       const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    detail::require_movable(span);
    detail::require_device(location);
    return detail::run_on(stream, span, Span{}, [&](const Stream& on) {
        if (!stream) (void)on.hear_until_idle();  // the runtime's call may wait too
        check(rt::MemPrefetchAsync(span.ptr, span.nbytes, location, on.handle()), "MemPrefetchAsync");
        return detail::Progress::Queued;
    });
}

/// Gives the runtime advice on managed memory, or on system memory that the device reaches. It takes effect at once, in
/// no stream's order. Throws std::invalid_argument for other memory and for a device that does not exist, and Error if
/// the runtime refuses. For foreign memory the runtime decides.
inline void advise(const Span& span, rt::MemoryAdvise advice, rt::Location location) {
    refuse_forked();
    detail::require_movable(span);
    detail::require_device(location);
    const RelaxedCapture beside(span.device());
    check(rt::MemAdvise(span.ptr, span.nbytes, advice, location), "MemAdvise");
}

/// Returns an attribute of memory that advise takes: one number, or for AccessedBy the ordinals of the devices (the
/// host is rt::CpuDeviceId), filled up with rt::InvalidDeviceId. Throws as advise does.
inline std::vector<int> range_attribute(const Span& span, rt::MemRangeAttribute attribute) {
    refuse_forked();
    detail::require_movable(span);
    const std::size_t count =
        attribute == rt::MemRangeAttribute::AccessedBy ? static_cast<std::size_t>(device_count()) + 1 : 1;
    std::vector<int> values(count, rt::InvalidDeviceId);
    const DeviceGuard guard(span.device());
    check(rt::MemRangeGetAttribute(values.data(), values.size() * sizeof(int), attribute, span.ptr, span.nbytes),
          "MemRangeGetAttribute");
    return values;
}

PORTAMEM_CLOSE
