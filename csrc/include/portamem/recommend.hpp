// SPDX-License-Identifier: MIT
// portamem/recommend.hpp: which kind of memory to take on a device, and why.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/capabilities.hpp"
#include "portamem/device.hpp"
#include "portamem/mr/device_memory_resource.hpp"
#include "portamem/mr/managed_memory_resource.hpp"
#include "portamem/mr/pinned_memory_resource.hpp"
#include "portamem/mr/system_memory_resource.hpp"

PORTAMEM_OPEN

/// Says what memory is for.
enum class Purpose {
    Kernels,   ///< kernels use it, and the host seldom does
    Shared,    ///< kernels and the host use the same bytes by turns
    Transfer,  ///< the host's end of copies to and from the device
    Larger,    ///< kernels use it, and it may be more than the device has
};

/// Names a kind of memory, and the reason for it.
struct Recommendation {
    ResourceKind kind = ResourceKind::Device;  ///< Device, Pinned, Managed or System
    const char* why = "";                      ///< the reason in one sentence, by what the device reports

    /// Makes a resource of that kind on a device. Throws as its constructor does.
    std::shared_ptr<MemoryResource> make(int device) const {
        switch (kind) {
            case ResourceKind::Pinned:
                return PinnedMemoryResource::create(device);
            case ResourceKind::Managed:
                return ManagedMemoryResource::create(device);
            case ResourceKind::System:
                return SystemMemoryResource::create(device);
            default:
                return DeviceMemoryResource::create(device);
        }
    }
};

namespace detail {

inline Recommendation recommend_shared(const Capabilities& device) {
    if (device.integrated && device.direct_host_access)
        return {ResourceKind::Device, "host and device share one memory, and the host reaches plain device memory"};
    if (device.uses_host_page_tables)
        return {ResourceKind::System, "the device reaches ordinary memory by the host's own page tables"};
    if (device.managed_mode == ManagedMode::Migrating)
        return {ResourceKind::Managed, "pages of managed memory move to the processor that touches them"};
    return {ResourceKind::Pinned, "no memory moves between host and device here, and kernels reach pinned memory"};
}

inline Recommendation recommend_transfer(const Capabilities& device) {
    if (device.uses_host_page_tables || (device.integrated && device.pageable_memory_access))
        return {ResourceKind::System, "the device copies ordinary memory as fast as pinned memory"};
    return {ResourceKind::Pinned, "the device copies pinned memory at the full rate, beside other work"};
}

inline Recommendation recommend_larger(const Capabilities& device) {
    if (device.uses_host_page_tables)
        return {ResourceKind::System, "ordinary memory is as large as the host's, and the device reaches it"};
    if (device.managed_mode == ManagedMode::Migrating)
        return {ResourceKind::Managed,
                "pages of managed memory come when kernels touch them, and make room for others"};
    return {ResourceKind::Pinned, "no memory moves to the device by itself here, and kernels reach pinned memory"};
}

}  // namespace detail

/// Recommends a kind of memory for a device that has these capabilities. It asks nothing else, so it answers for a
/// device elsewhere too.
inline Recommendation recommend(const Capabilities& device, Purpose purpose) {
    switch (purpose) {
        case Purpose::Kernels:
            return {ResourceKind::Device, "kernels use memory of their device at its full rate"};
        case Purpose::Shared:
            return detail::recommend_shared(device);
        case Purpose::Transfer:
            return detail::recommend_transfer(device);
        case Purpose::Larger:
            return detail::recommend_larger(device);
    }
    throw std::invalid_argument("this is no Purpose: give Kernels, Shared, Transfer or Larger");
}

PORTAMEM_CLOSE
