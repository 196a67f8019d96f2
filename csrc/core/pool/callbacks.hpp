// SPDX-License-Identifier: MIT
// core/pool/callbacks.hpp: the functions of a pool's owner, by which the pool reaches streams, events and the upstream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "portamem/abi/pool_api.h"

namespace portamem::pool {

/// Copies as much of a struct as the owner's version of it has: what was added since is null.
template <class Struct>
Struct known_part(const Struct& given) noexcept {
    Struct all{};
    std::memcpy(&all, &given, std::min<std::size_t>(given.size, sizeof all));
    return all;
}

/// What all parts of a pool call. Fixed when the pool is made.
struct Callbacks {
    const portamem_pool_ops ops;
    void* const self;
};

}  // namespace portamem::pool
