// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_limit.hpp: what the environment says to pools, in C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/abi/pool_settings.h"
#include "portamem/device.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN
namespace detail {

/// PORTAMEM_POOL=off. Throws std::invalid_argument where a setting of pools cannot be read.
inline bool pools_pass_through() {
    const int answer = portamem_pool_passthrough();
    if (answer < 0) throw std::invalid_argument(portamem_pool_settings_error());
    return answer != 0;
}

/// PORTAMEM_POOL_LIMIT for the pools of one device. Thread-safe.
class PoolLimit {
  public:
    /// The limit of a pool over memory like that; nothing where PORTAMEM_POOL_LIMIT does not concern it: other memory
    /// than a device's, memory of another pool, whose limits hold, or no limit set. Throws std::invalid_argument where it
    /// cannot be read, and Error.
    static std::optional<PoolLimit> of(const MemoryTraits& traits) {
        if (traits.is_pooled) return std::nullopt;
        if (traits.kind != ResourceKind::Device && traits.kind != ResourceKind::Async) return std::nullopt;
        if (ask(nullptr, 0) == PORTAMEM_POOL_UNLIMITED) return std::nullopt;
        const Device device(traits.device);
        return PoolLimit(device.uuid(), device.properties().total_global_mem);
    }

    /// Bytes, now: a percentage is shared among the processes on the device, which come and go. Some system calls.
    /// Throws std::invalid_argument where they cannot be counted.
    std::size_t bytes() const { return static_cast<std::size_t>(ask(uuid_.c_str(), total_)); }

    /// Whether it is a percentage, of which others may come to have a part.
    bool is_share() const noexcept { return is_share_; }

    /// Takes room for at most nbytes, which becomes what there is, and at least `least`. False where less is left for
    /// all pools of the process. Throws as bytes().
    bool claim(std::size_t least, std::size_t& nbytes) const {
        std::uint64_t granted = nbytes;
        const int answer = portamem_pool_claim(uuid_.c_str(), total_, least, &granted);
        if (answer < 0) throw std::invalid_argument(portamem_pool_settings_error());
        nbytes = static_cast<std::size_t>(granted);
        return answer != 0;
    }
    void unclaim(std::size_t nbytes) const noexcept { portamem_pool_unclaim(uuid_.c_str(), nbytes); }
    std::size_t claimed() const noexcept { return static_cast<std::size_t>(portamem_pool_claimed(uuid_.c_str())); }

  private:
    static std::uint64_t ask(const char* uuid, std::uint64_t total) {
        const std::uint64_t limit = portamem_pool_limit(uuid, total);
        if (limit == 0) throw std::invalid_argument(portamem_pool_settings_error());
        return limit;
    }

    PoolLimit(std::string uuid, std::size_t total)
        : uuid_(std::move(uuid)), total_(total), is_share_(portamem_pool_limit_is_share() == 1) {}

    std::string uuid_;
    std::size_t total_;
    bool is_share_;
};

}  // namespace detail
PORTAMEM_CLOSE
