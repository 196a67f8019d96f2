// SPDX-License-Identifier: MIT
// portamem/detail/embedder.hpp: the hooks for a language that embeds portamem. A C++ program needs none of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <type_traits>

#include "portamem/backend.hpp"

PORTAMEM_OPEN

namespace detail {

/// Holds the hooks of the embedding language, one set for each module. A null hook means that portamem runs in no such
/// language, or that the language has no use for it. The order checker takes call sites by its own C function
/// (portamem/abi/order_api.h).
struct EmbedderHooks {
    /// Runs run(argument) without the language's lock, where the calling thread holds it.
    std::atomic<void (*)(void (*run)(void*), void* argument)> unlocked{nullptr};
    /// Returns once is_done(argument) is true. Throws an exception of the program's signal handlers that comes before
    /// that, and one of is_done.
    std::atomic<void (*)(bool (*is_done)(void*), void* argument)> wait{nullptr};
    /// Writes the program's call site as text, and returns how many bytes; 0 where there is none.
    std::atomic<int (*)(char* text, std::size_t size)> call_site{nullptr};
    /// Takes a failure that a destructor has met and cannot throw. It is called with no lock of portamem held.
    std::atomic<void (*)(const std::exception_ptr&) noexcept> lost_failure{nullptr};
};

inline EmbedderHooks& embedder() noexcept {
    static EmbedderHooks hooks;
    return hooks;
}

/// Runs a function without the language's lock, for destructors. The last reference may end on any thread and under any
/// lock, and a destructor's calls may wait for work that needs that lock.
template <class Function>
void unlocked(Function&& function) noexcept {
    const auto hook = embedder().unlocked.load(std::memory_order_relaxed);
    if (hook == nullptr) {
        function();
    } else {
        hook([](void* argument) { (*static_cast<std::remove_reference_t<Function>*>(argument))(); }, &function);
    }
}

/// Keeps an allocation's resource and stream alive in place of shared references: it holds their objects in the
/// language, which counts references at a lower cost.
struct EmbedderRefs {
    void (*let_go)(const EmbedderRefs&) noexcept = nullptr;  ///< may run on any thread; null: nothing to let go
    void* resource = nullptr;
    void* stream = nullptr;
};

}  // namespace detail

PORTAMEM_CLOSE
