// SPDX-License-Identifier: MIT
// portamem/mr/detail/pool_limit.hpp: the settings of pools in the environment, for C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/abi/pool_settings.h"
#include "portamem/detail/owned.hpp"
#include "portamem/device.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN
namespace detail {

/// Returns whether PORTAMEM_POOL=off is set. Throws std::invalid_argument where a setting of pools cannot be parsed.
inline bool pools_pass_through() {
    const int answer = portamem_pool_passthrough();
    if (answer < 0) throw std::invalid_argument(portamem_pool_settings_error());
    return answer != 0;
}

/// Represents PORTAMEM_POOL_LIMIT for the pools of one device. It is thread-safe.
class PoolLimit {
  public:
    /// Returns the limit of a pool over memory with those traits. Returns nothing where PORTAMEM_POOL_LIMIT does not
    /// apply: for other memory than a device's, for memory of another pool, whose limits hold, and where no limit is
    /// set. Throws std::invalid_argument where the setting cannot be parsed, and Error.
    static Owned<PoolLimit> of(const MemoryTraits& traits) {
        if (traits.is_pooled) return nullptr;
        const bool is_device = traits.kind == ResourceKind::Device || traits.kind == ResourceKind::Async;
        if (!is_device && traits.kind != ResourceKind::Virtual) return nullptr;
        if (ask(nullptr, 0) == PORTAMEM_POOL_UNLIMITED) return nullptr;
        const Device device(traits.device);
        return Owned(new PoolLimit(device.uuid(), device.properties().total_global_mem));
    }

    /// Returns the present limit in bytes. A percentage is shared among the processes on the device, which come and go.
    /// It costs some system calls. Throws std::invalid_argument where the processes cannot be counted.
    std::size_t bytes() const { return static_cast<std::size_t>(ask(uuid_.c_str(), total_)); }

    /// Returns whether the limit is a percentage, which the process shares with later ones.
    bool is_share() const noexcept { return is_share_; }

    /// Takes room for at most nbytes and at least `least`, and sets nbytes to what it took. Returns false where less is
    /// left for all pools of the process. Throws as bytes() does.
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
