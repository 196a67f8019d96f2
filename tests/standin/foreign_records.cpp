// SPDX-License-Identifier: MIT
// foreign_records.cpp: records without a mapping of the host runtime's own.
#include "foreign_records.hpp"

#include "../../csrc/host/entry.hpp"

namespace standin {

using portamem::host::Hold;
using portamem::host::State;

void add_device_record(void* base, std::size_t size, int device) {
    auto record = std::make_shared<portamem::host::Allocation>();
    record->kind = portamem::host::Kind::Virtual;  // neighbours serve one copy, and Free refuses them
    record->base = static_cast<char*>(base);
    record->alias = record->base;
    record->size = size;
    record->device = device;
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    state.allocations.insert(std::move(record));
}

void erase_record(const void* base) {
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    if (const auto record = state.allocations.starting_at(base)) state.allocations.erase(*record);
}

bool reserve_memory(int device, std::size_t size) {
    State& state = portamem::host::state();
    Hold hold(state.mutex);
    return portamem::host::device_of(state, device).reserve(state, hold, size);
}

void give_memory_back(int device, std::size_t size) {
    State& state = portamem::host::state();
    const Hold hold(state.mutex);
    portamem::host::device_of(state, device).reserved -= size;
}

}  // namespace standin
