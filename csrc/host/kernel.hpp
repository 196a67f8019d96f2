// SPDX-License-Identifier: MIT
// host/kernel.hpp: kernels: functions that run as work of a stream, and the heaps that they allocate from.
#pragma once

#include <cstddef>

namespace portamem::host {

class Hold;
struct Device;
struct State;

/// Takes a device's heap out of its memory, once, and thereby settles its size. OutOfMemory leaves all as it was.
void reserve_heap(State& state, Hold& hold, Device& device);

/// Whether a range shares a byte with the heap of any device.
bool is_heap_memory(const State& state, const void* ptr, std::size_t size);

/// Refuses a range of a heap with InvalidValue, because only kernels may use it.
void refuse_heap(const State& state, const char* call, const void* ptr, std::size_t size);

}  // namespace portamem::host
