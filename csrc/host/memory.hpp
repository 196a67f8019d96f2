// SPDX-License-Identifier: MIT
// host/memory.hpp: shared by the calls that allocate and free.
#pragma once

#include <memory>

#include "allocation.hpp"

namespace portamem::host {

class Hold;
struct Device;
struct State;

/// Takes bytes out of a device's memory. OutOfMemory, which tells of the bytes that were asked for, leaves all as it
/// was.
void take_memory(State& state, Hold& hold, Device& device, std::size_t bytes, std::size_t asked);

/// Refuses a pointer that does not start a piece of memory of the right kind, and says what it is instead.
[[noreturn]] void refuse_free(State& state, const void* ptr, const char* wanted);

/// Forgets memory that no pool owns. The parts that queued operations hold stay mapped until these have run.
void release_plain(State& state, Hold& hold, const std::shared_ptr<Allocation>& record);

}  // namespace portamem::host
