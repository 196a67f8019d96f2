// SPDX-License-Identifier: MIT
// Bytes of host memory that this thread has taken by operator new: memory that was given back counts as well.
#pragma once

#include <cstdint>
#include <exception>

std::uint64_t host_memory_taken() noexcept;

/// The same less what this thread has given back by operator delete, both as the allocator has it.
std::int64_t host_memory_held() noexcept;

/// This thread's n-th operator new from here on throws std::bad_alloc, once; 0: none.
void fail_host_memory(std::uint64_t nth) noexcept;

/// Runs a function in which this thread's n-th operator new throws. Answers whether the function threw.
template <class Function>
bool throws_without_host_memory(std::uint64_t nth, Function&& function) {
    bool has_thrown = false;
    fail_host_memory(nth);
    try {
        function();
    } catch (const std::exception&) {
        has_thrown = true;
    }
    fail_host_memory(0);
    return has_thrown;
}
