// SPDX-License-Identifier: MIT
// host/copy.hpp: the engine of copies and fills: checks a request, queues it, and waits where a vendor would.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "allocation.hpp"
#include "portamem/host/runtime_api.h"
#include "refusal.hpp"

namespace portamem::host {

class Hold;
class Stream;
struct State;

/// The start of one side of a request, and the distances to its rows and slices.
struct Side {
    const void* ptr = nullptr;
    std::size_t pitch = 0;  ///< bytes from row to row
    std::size_t slice = 0;  ///< bytes from slice to slice
};

struct Box {
    std::size_t width = 0;  ///< bytes of a row
    std::size_t height = 1;
    std::size_t depth = 1;

    bool is_empty() const { return width == 0 || height == 0 || depth == 0; }
};

/// Memory that an operation may work on. Pageable memory has no record, and adjacent pieces of virtual memory have the
/// record of the first: it keeps the addresses of all.
struct Place {
    char* data = nullptr;
    std::size_t pitch = 0;
    std::size_t slice = 0;
    std::shared_ptr<Allocation> record;
    const char* first = nullptr;  ///< the user's address
    std::size_t span = 0;         ///< bytes from there to the last one

    bool is_pageable() const { return record == nullptr; }
    bool is_device_memory() const { return record != nullptr && record->is_device_memory(); }
    bool is_host_memory() const { return record == nullptr || record->is_host_memory(); }
    char* row(std::size_t y, std::size_t z) const { return data + z * slice + y * pitch; }
};

/// Whether the call returns when the host may go on with its memory, or at once where it can.
enum class Form { Blocking, Async };

/// Finds the memory of a box that a stream is to work on. InvalidValue for null, and for a box that leaves its
/// allocation.
Place locate(State& state, const char* call, const Side& side, const Box& box, Stream& stream);

/// Whether an address is in a pool but in no allocation, in the rest that rounding left behind a plain allocation, or
/// reserved for virtual memory. The caller owns none of these.
bool is_unused_memory(State& state, const void* ptr);

/// Returns the work that moves the bytes. It pauses first, if a knob says so.
std::function<void()> copy_work(const State& state, Place dst, Place src, const Box& box);

void copy(State& state, Hold& hold, const char* call, Form form, const Side& dst, const Side& src, const Box& box,
          int kind, pmhStream_t stream);

void fill(State& state, Hold& hold, const char* call, Form form, const Side& dst, const Box& box, int value,
          pmhStream_t stream);

/// These add and multiply sizes that a caller chose. InvalidValue where the result overflows.
inline std::size_t plus(std::size_t a, std::size_t b) {
    std::size_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) refuse(pmhErrorInvalidValue, "a size is more than an address can count");
    return sum;
}

inline std::size_t times(std::size_t a, std::size_t b) {
    std::size_t product = 0;
    if (__builtin_mul_overflow(a, b, &product))
        refuse(pmhErrorInvalidValue, "a size is more than an address can count");
    return product;
}

}  // namespace portamem::host
