// SPDX-License-Identifier: MIT
// An upstream of pools whose functions a test holds up, makes fail, or lets come back to the pool.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>

#include "pm_pool_support.hpp"

/// Host memory of so many bytes, which is said to be of a kind.
struct Upstream {
    std::atomic<std::size_t> out{0};
    std::atomic<std::size_t> most{0};
    std::function<void(std::size_t)> while_allocating = [](std::size_t) {};
    std::function<void()> while_deallocating = [] {};

    Resource resource(std::size_t capacity, pm::ResourceKind kind = pm::ResourceKind::Pinned) {
        return std::make_shared<pm::CallbackMemoryResource>(
            [this, capacity](std::size_t nbytes, const StreamPtr&) -> void* {
                while_allocating(nbytes);
                const std::size_t now = out += nbytes;
                if (now > capacity) {
                    out -= nbytes;
                    return nullptr;
                }
                for (std::size_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
                }
                return std::aligned_alloc(4096, nbytes);
            },
            [this](void* ptr, std::size_t nbytes, const StreamPtr&) {
                while_deallocating();
                std::free(ptr);
                out -= nbytes;
            },
            pm::CallbackMemoryResource::memory_of(kind, 0));
    }
};
