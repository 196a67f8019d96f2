// SPDX-License-Identifier: MIT
// portamem/rt/check.hpp: the cheap checks of arguments that every backend makes before it calls its vendor.
//
// They exist so that a corner has one answer everywhere: a request for 0 bytes makes no vendor call, so the vendor
// cannot be the one to refuse its other arguments, and vendors refuse a short pitch with different codes.
#pragma once

#include <cstddef>

#include "portamem/rt/enums.hpp"

namespace portamem {
namespace rt {
namespace check {

/// Whether one of portamem's values is the vendor's as well. For static_asserts.
template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
    return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

constexpr bool direction(MemcpyKind kind) { return kind >= MemcpyKind::HostToHost && kind <= MemcpyKind::Default; }

/// Success, InvalidValue for no location, InvalidDevice for an impossible ordinal.
constexpr Error_t location(Location where) {
    switch (where.type) {
        case LocationType::Device:
            return where.id < 0 ? Error_t::InvalidDevice : Error_t::Success;
        case LocationType::HostNuma:
            return where.id < 0 ? Error_t::InvalidValue : Error_t::Success;
        case LocationType::Host:
        case LocationType::HostNumaCurrent:
            return Error_t::Success;
        case LocationType::None:
            break;
    }
    return Error_t::InvalidValue;
}

/// Success for a device; InvalidValue for another location, InvalidDevice for an impossible ordinal.
constexpr Error_t of_device(Location where) {
    return where.type == LocationType::Device ? location(where) : Error_t::InvalidValue;
}

/// Whether a location names a NUMA node: not every version of a vendor's calls can say so.
constexpr bool names_numa_node(Location where) {
    return where.type == LocationType::HostNuma || where.type == LocationType::HostNumaCurrent;
}

/// A location as the older calls spell it: an ordinal, or the CPU.
constexpr int device_or_cpu(Location where) { return where.type == LocationType::Device ? where.id : CpuDeviceId; }

/// Whether an advice looks at its location; the others take any.
constexpr bool uses_location(MemoryAdvise advice) {
    return advice == MemoryAdvise::SetPreferredLocation || advice == MemoryAdvise::SetAccessedBy ||
           advice == MemoryAdvise::UnsetAccessedBy;
}

/// Whether an advice is AMD's own.
constexpr bool is_coarse_grain(MemoryAdvise advice) {
    return advice == MemoryAdvise::SetCoarseGrain || advice == MemoryAdvise::UnsetCoarseGrain;
}

constexpr bool attach(MemAttach attach) { return attach == MemAttach::Global || attach == MemAttach::Host; }

/// Whether a pool's attribute is a boolean: the vendors read and write those as int, the others as 64 bits.
constexpr bool is_boolean(MemPoolAttr attr) {
    return attr == MemPoolAttr::ReuseFollowEventDependencies || attr == MemPoolAttr::ReuseAllowOpportunistic ||
           attr == MemPoolAttr::ReuseAllowInternalDependencies;
}

constexpr bool host_malloc(unsigned flags, Coherence coherence) {
    return flags <= (HostMallocPortable | HostMallocMapped | HostMallocWriteCombined) &&
           (coherence == Coherence::Default || coherence == Coherence::Coherent || coherence == Coherence::NonCoherent);
}

constexpr bool host_register(const void* ptr, std::size_t nbytes, unsigned flags) {
    return ptr != nullptr && nbytes != 0 &&
           flags <= (HostRegisterPortable | HostRegisterMapped | HostRegisterIoMemory | HostRegisterReadOnly);
}

/// Coherence of device memory: the pinned-only values are misuse, the others a question of support.
constexpr bool device_coherence(Coherence coherence) {
    return coherence == Coherence::Default || coherence == Coherence::FineGrained || coherence == Coherence::Uncached;
}

constexpr bool pitches(std::size_t dst_pitch, std::size_t src_pitch, std::size_t width) {
    return dst_pitch >= width && src_pitch >= width;
}

constexpr bool is_empty(Extent extent) { return extent.width == 0 || extent.height == 0 || extent.depth == 0; }

}  // namespace check
}  // namespace rt
}  // namespace portamem
