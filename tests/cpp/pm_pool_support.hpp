// SPDX-License-Identifier: MIT
// Helpers of the tests of pools.
#pragma once

#include <utility>

#include "pm_support.hpp"

using Pool = std::shared_ptr<pm::PoolMemoryResource>;

inline Pool pool_over(Resource upstream, std::size_t limit = 0) {
    pm::PoolOptions options;
    options.limit = limit;
    return pm::PoolMemoryResource::create(std::move(upstream), std::move(options));
}

inline bool reaches_host(const Pool& pool) { return pool->is_host_accessible(); }
