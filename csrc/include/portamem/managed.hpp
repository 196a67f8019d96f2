// SPDX-License-Identifier: MIT
// portamem/managed.hpp: moving managed memory, and advising on it.
#pragma once

#include <vector>

#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

inline void require_managed(const Span& span) {
    if (span.allocation && span.allocation->traits().kind == ResourceKind::Managed) return;
    if (span.allocation && span.allocation->traits().kind == ResourceKind::Foreign) return;  // the runtime decides
    throw std::invalid_argument(std::string("only managed memory can be prefetched, advised or asked; this is ") +
                                (span.allocation ? to_string(span.allocation->traits().kind) : "host") +
                                " memory: take a ManagedMemoryResource");
}

inline void require_device(const rt::Location& location) {
    if (location.type == rt::LocationType::Device) (void)Device(location.id);
}

}  // namespace detail

/// Moves managed memory to a location, in stream order as copy does.
inline std::shared_ptr<Event> prefetch(const Span& span, rt::Location location,
                                       const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    detail::require_managed(span);
    detail::require_device(location);
    return detail::run_on(stream, span, Span{}, [&](const Stream& on) {
        check(rt::MemPrefetchAsync(span.ptr, span.nbytes, location, on.handle()), "MemPrefetchAsync");
    });
}

/// Advises on managed memory, at once.
inline void advise(const Span& span, rt::MemoryAdvise advice, rt::Location location) {
    refuse_forked();
    detail::require_managed(span);
    detail::require_device(location);
    const RelaxedCapture beside(span.device());
    check(rt::MemAdvise(span.ptr, span.nbytes, advice, location), "MemAdvise");
}

/// One attribute of managed memory: an int, or for AccessedBy the devices.
inline std::vector<int> range_attribute(const Span& span, rt::MemRangeAttribute attribute) {
    refuse_forked();
    detail::require_managed(span);
    const std::size_t count =
        attribute == rt::MemRangeAttribute::AccessedBy ? static_cast<std::size_t>(device_count()) + 1 : 1;
    std::vector<int> values(count, rt::InvalidDeviceId);
    const DeviceGuard guard(span.device());
    check(rt::MemRangeGetAttribute(values.data(), values.size() * sizeof(int), attribute, span.ptr, span.nbytes),
          "MemRangeGetAttribute");
    return values;
}

PORTAMEM_CLOSE
