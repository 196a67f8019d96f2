// SPDX-License-Identifier: MIT
// records.cpp: looks into the host runtime's state, under its lock.
#include "records.hpp"

#include "../../csrc/host/entry.hpp"
#include "portamem/c_api.h"

namespace standin {

using portamem::host::Hold;
using portamem::host::State;

std::optional<Known> known(const void* ptr) {
    if (portamem_forked() != 0) return std::nullopt;
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    const auto record = state.allocations.holding(ptr);
    if (record == nullptr) return std::nullopt;
    const bool is_freeable = record->kind != portamem::host::Kind::Virtual;
    return Known{record->kind, record->base, record->size, record->device, record->flags, is_freeable};
}

void set_flags(const void* base, unsigned flags) {
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    if (const auto record = state.allocations.starting_at(base)) record->flags = flags;
}

void wait_for_device(int device) {
    State& state = portamem::host::state();
    Hold hold(state.mutex);
    portamem::host::wait_for(hold, portamem::host::pending_work(portamem::host::device_of(state, device)));
}

}  // namespace standin
