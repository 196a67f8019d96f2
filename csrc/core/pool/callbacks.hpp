// SPDX-License-Identifier: MIT
// core/pool/callbacks.hpp: the functions of a pool's owner, by which the pool reaches streams, events and the upstream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "portamem/abi/pool_api.h"

namespace portamem::pool {

/// Copies the part of a struct that the owner's version has. Fields that were added since are null.
template <class Struct>
Struct known_part(const Struct& given) noexcept {
    Struct all{};
    std::memcpy(&all, &given, std::min<std::size_t>(given.size, sizeof all));
    return all;
}

/// The owner's functions, which all parts of a pool call. They are fixed when the pool is made.
struct Callbacks {
    const portamem_pool_ops ops;
    void* const self;
};

}  // namespace portamem::pool
