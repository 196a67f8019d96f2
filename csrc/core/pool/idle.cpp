// SPDX-License-Identifier: MIT
// core/pool/idle.cpp: the pools of the process, and the idle memory that they keep.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "pool.hpp"

namespace portamem::pool {
namespace {

struct Known {
    portamem_backend backend;
    int device;
    bool is_of_device;
    bool shares_idle;
    const Pool* address;
    std::weak_ptr<Pool> pool;
};

struct AllKnown {
    std::mutex mutex;
    std::vector<Known> pools;
};

// The list is never destroyed, because pools may be asked while the process ends.
AllKnown& all_known() {
    static AllKnown& all = *new AllKnown;
    return all;
}

// The caller drops the result with no lock held, because it may be the last owner of a pool.
template <class Which>
std::vector<std::shared_ptr<Pool>> pools_that(const Which& which) {
    std::vector<std::shared_ptr<Pool>> found;
    const std::lock_guard<std::mutex> lock(all_known().mutex);
    found.reserve(all_known().pools.size());
    for (const Known& known : all_known().pools) {
        if (!which(known)) continue;
        if (auto pool = known.pool.lock()) found.push_back(std::move(pool));
    }
    return found;
}

std::uint64_t idle_bytes_of(const std::vector<std::shared_ptr<Pool>>& pools) {
    std::uint64_t idle = 0;
    for (const auto& pool : pools) {
        std::uint64_t blocks = 0;
        std::uint64_t used = 0;
        std::uint64_t reserved = 0;
        std::uint64_t peak = 0;
        pool->live(blocks, used);
        pool->reserved(reserved, peak);
        idle += reserved > used ? reserved - used : 0;
    }
    return idle;
}

}  // namespace

void enlist(const std::shared_ptr<Pool>& pool) {
    const portamem_pool_options& options = pool->options();
    if (options.is_of_device == 0 && options.shares_idle == 0) return;
    const std::lock_guard<std::mutex> lock(all_known().mutex);
    auto& pools = all_known().pools;
    pools.erase(std::remove_if(pools.begin(), pools.end(), [](const Known& known) { return known.pool.expired(); }),
                pools.end());
    pools.push_back(
        {options.backend, options.device, options.is_of_device != 0, options.shares_idle != 0, pool.get(), pool});
}

std::uint64_t idle_bytes(portamem_backend backend, int device) {
    return idle_bytes_of(pools_that(
        [&](const Known& known) { return known.is_of_device && known.backend == backend && known.device == device; }));
}

std::uint64_t lendable_bytes(portamem_backend backend, int device) {
    return Pool::is_in_call_over(backend, device) ? 0 : idle_bytes_of(pools_that_help(backend, device, nullptr));
}

std::vector<std::shared_ptr<Pool>> pools_that_help(portamem_backend backend, int device, const Pool* asking) {
    return pools_that([&](const Known& known) {
        return known.shares_idle && known.address != asking && known.backend == backend && known.device == device;
    });
}

}  // namespace portamem::pool
