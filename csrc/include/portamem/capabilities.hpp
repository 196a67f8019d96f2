// SPDX-License-Identifier: MIT
// portamem/capabilities.hpp: what a device can do, asked of the device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "portamem/error.hpp"

PORTAMEM_OPEN

/// Holds yes, no or unknown. It is unknown where the runtime, its version or its driver does not say. As a condition it
/// is true only for yes.
class Answer {
  public:
    constexpr Answer() = default;
    constexpr Answer(bool yes) noexcept : value_(yes ? kYes : kNo) {}

    constexpr operator bool() const noexcept { return value_ == kYes; }
    constexpr bool is_known() const noexcept { return value_ != kUnknown; }
    constexpr bool is_no() const noexcept { return value_ == kNo; }

  private:
    enum Value : signed char { kUnknown = -1, kNo = 0, kYes = 1 };
    Value value_ = kUnknown;
};

/// Says how managed memory behaves on a device.
enum class ManagedMode {
    None,          ///< there is none
    HostResident,  ///< it stays in one place and is reached from there; prefetches and advice may have no effect
    Migrating,     ///< pages move to the processor that touches them
};

/// Lists what portamem reads of a device without allocating, without a context and without waiting. ProbedCapabilities
/// has the answers that need a trial. No answer is derived from a version or from a kind of memory; the contracts of
/// the attributes in rt/api/device.hpp name the vendors' rules.
struct Capabilities {
    Answer memory_pools;                        ///< the runtime has stream-ordered pools (MallocAsync)
    std::optional<unsigned> pool_handle_types;  ///< rt::MemHandleType bits by which pools go to other processes
    ManagedMode managed_mode = ManagedMode::None;
    Answer concurrent_managed_access;  ///< the host may touch managed memory while kernels run
    Answer pageable_memory_access;     ///< the device reads and writes memory of malloc; on AMD: XNACK is in effect
    Answer uses_host_page_tables;      ///< the device reaches memory of malloc by the page tables of the host
    Answer direct_host_access;         ///< the host reads and writes plain device memory; CUDA does not say
    Answer integrated;                 ///< the device shares the memory of the host
    Answer xnack;                      ///< AMD's mode of retrying page faults; unknown where there is no such mode
    Answer pinned_coherent;            ///< pinned memory is coherent with running kernels unless asked otherwise
    Answer pinned_non_coherent;        ///< there is a non-coherent kind of pinned memory too
    Answer host_register;              ///< HostRegister pins memory of the program's own
    Answer registered_pointer_is_device_pointer;            ///< the device has registered memory at the host's address
    Answer stream_priorities;                               ///< streams of several priorities run by them
    Answer virtual_memory;                                  ///< the driver reserves addresses and maps memory to them
    std::optional<std::size_t> virtual_memory_minimum;      ///< granularity, bytes
    std::optional<std::size_t> virtual_memory_recommended;  ///< granularity, bytes
    std::optional<unsigned> virtual_memory_handle_types;    ///< rt::MemHandleType bits
    Answer ipc_memory_handles;  ///< other processes can open plain device memory; PointerInfo tells of one address
    Answer ipc_event_handles;   ///< other processes can open events
    std::optional<rt::MallocHeapKind> malloc_heap_kind;  ///< what the limit of the device heap bounds
    std::vector<int> peers;                              ///< devices whose memory this one can address
    int compute_capability_major = 0;
    int compute_capability_minor = 0;
    int multi_processor_count = 0;
    int warp_size = 0;
};

namespace detail {

/// Returns an attribute's value, or nothing where the runtime, its version or its driver does not have it.
inline std::optional<int> known_attribute(rt::DeviceAttr attr, int device) {
    int value = 0;
    const rt::Error_t answer = rt::DeviceGetAttribute(&value, attr, device);
    if (answer == rt::Error_t::Success) return value;
    if (answer == rt::Error_t::InvalidValue || answer == rt::Error_t::NotSupported) return std::nullopt;
    raise(answer, "DeviceGetAttribute");
}

inline int attribute(rt::DeviceAttr attr, int device, int otherwise = 0) {
    return known_attribute(attr, device).value_or(otherwise);
}

inline Answer answer(rt::DeviceAttr attr, int device) {
    const auto value = known_attribute(attr, device);
    return value ? Answer(*value != 0) : Answer();
}

inline ManagedMode managed_mode(int device) {
    if (attribute(rt::DeviceAttr::ManagedMemory, device) == 0) return ManagedMode::None;
    const bool moves = attribute(rt::DeviceAttr::ManagedMemoryMigrates, device) != 0;
    return moves ? ManagedMode::Migrating : ManagedMode::HostResident;
}

inline std::optional<std::size_t> granularity(int device, rt::MemAllocationGranularity option) {
    std::size_t bytes = 0;
    const auto answer = rt::MemGetAllocationGranularity(&bytes, {rt::LocationType::Device, device}, option);
    return answer == rt::Error_t::Success && bytes != 0 ? std::optional(bytes) : std::nullopt;
}

// Returns the handle types that the device reports as supported, or nothing where it reports about none.
inline std::optional<unsigned> virtual_memory_handle_types(int device) {
    using rt::DeviceAttr;
    const auto file = known_attribute(DeviceAttr::HandleTypePosixFileDescriptorSupported, device);
    const auto fabric = known_attribute(DeviceAttr::HandleTypeFabricSupported, device);
    if (!file && !fabric) return std::nullopt;
    unsigned types = 0;
    if (file.value_or(0) != 0) types |= rt::MemHandleTypePosixFileDescriptor;
    if (fabric.value_or(0) != 0) types |= rt::MemHandleTypeFabric;
    return types;
}

inline std::vector<int> peers(int device) {
    std::vector<int> found;
    int count = 0;
    if (rt::GetDeviceCount(&count) != rt::Error_t::Success) return found;
    for (int peer = 0; peer < count; ++peer) {
        int can = 0;
        if (peer == device) continue;
        if (rt::DeviceCanAccessPeer(&can, device, peer) == rt::Error_t::Success && can != 0) found.push_back(peer);
    }
    return found;
}

}  // namespace detail

/// Asks the runtime for the capabilities of a device. Throws Error if there is no such device.
inline Capabilities query_capabilities(int device) {
    using rt::DeviceAttr;
    const auto ask = [device](DeviceAttr attr) { return detail::answer(attr, device); };
    Capabilities c;
    c.memory_pools = ask(DeviceAttr::MemoryPoolsSupported);
    if (const auto types = detail::known_attribute(DeviceAttr::MemoryPoolSupportedHandleTypes, device)) {
        c.pool_handle_types = static_cast<unsigned>(*types);
    }
    c.managed_mode = detail::managed_mode(device);
    c.concurrent_managed_access = ask(DeviceAttr::ConcurrentManagedAccess);
    c.pageable_memory_access = ask(DeviceAttr::PageableMemoryAccess);
    c.uses_host_page_tables = ask(DeviceAttr::PageableMemoryAccessUsesHostPageTables);
    c.direct_host_access = ask(DeviceAttr::DirectDeviceMemAccessFromHost);
    c.integrated = ask(DeviceAttr::Integrated);
    c.xnack = ask(DeviceAttr::Xnack);
    c.pinned_coherent = ask(DeviceAttr::HostMallocCoherent);
    c.pinned_non_coherent = ask(DeviceAttr::HostMallocNonCoherent);
    c.host_register = ask(DeviceAttr::HostRegisterSupported);
    c.registered_pointer_is_device_pointer = ask(DeviceAttr::CanUseHostPointerForRegisteredMem);
    c.stream_priorities = ask(DeviceAttr::StreamPrioritiesSupported);
    c.virtual_memory = ask(DeviceAttr::VirtualMemoryManagementSupported);
    if (!c.virtual_memory.is_no()) {
        c.virtual_memory_minimum = detail::granularity(device, rt::MemAllocationGranularity::Minimum);
        c.virtual_memory_recommended = detail::granularity(device, rt::MemAllocationGranularity::Recommended);
        c.virtual_memory_handle_types = detail::virtual_memory_handle_types(device);
    }
    c.ipc_memory_handles = ask(DeviceAttr::IpcMemHandleSupported);
    c.ipc_event_handles = ask(DeviceAttr::IpcEventSupport);
    if (const auto kind = detail::known_attribute(DeviceAttr::MallocHeapKind, device)) {
        c.malloc_heap_kind = static_cast<rt::MallocHeapKind>(*kind);
    }
    c.peers = detail::peers(device);
    c.compute_capability_major = detail::attribute(DeviceAttr::ComputeCapabilityMajor, device);
    c.compute_capability_minor = detail::attribute(DeviceAttr::ComputeCapabilityMinor, device);
    c.multi_processor_count = detail::attribute(DeviceAttr::MultiProcessorCount, device);
    c.warp_size = detail::attribute(DeviceAttr::WarpSize, device);
    return c;
}

PORTAMEM_CLOSE
