// SPDX-License-Identifier: MIT
// host/state.cpp: the pretended machine, as it is before the first call.
#include "state.hpp"

#include <algorithm>

#include "entry.hpp"
#include "order_hooks.hpp"
#include "pages.hpp"

namespace portamem::host {
namespace {

constexpr std::array<std::size_t, 3> initial_limits = {1024, std::size_t{1} << 20, std::size_t{8} << 20};

std::unique_ptr<Device> make_device(int ordinal) {
    auto device = std::make_unique<Device>();
    device->ordinal = ordinal;
    device->limits = initial_limits;
    device->legacy = std::make_shared<Stream>(ordinal, Stream::Role::Legacy, pmhStreamDefault);
    device->streams.push_back(device->legacy);
    device->default_pool = std::make_shared<Pool>(ordinal, 0);
    device->current_pool = device->default_pool;
    device->pools.push_back(device->default_pool);
    return device;
}

}  // namespace

State::State() : config(read_config()) {
    for (int ordinal = 0; ordinal < config.devices; ++ordinal) {
        devices.push_back(make_device(ordinal));
        auto& pool = devices.back()->default_pool;
        pools.emplace(reinterpret_cast<pmhMemPool_t>(pool.get()), pool);
    }
    reset_knobs();
    (void)order::start_if_asked();
}

void State::reset_knobs() {
    for (auto& device : devices) device->capacity = config.capacity;
    copy_delay = config.copy_delay;
    fail = config.fail;
    fail_armed.store(fail.nth != 0, std::memory_order_relaxed);
}

void State::lock_pages(std::size_t size) {
    const std::size_t most = lockable_bytes();
    if (locked > most || size > most - locked)
        refuse(pmhErrorOutOfMemory, "%zu bytes asked for; %zu are page-locked, of %zu that this process can have", size,
               locked, most);
    locked += size;
}

void State::synchronized(Hold& hold, int device) {
    auto& all = devices[static_cast<std::size_t>(device)]->pools;
    for (auto& pool : all) pool->synchronized(*this, hold);
    all.erase(std::remove_if(all.begin(), all.end(), [](auto& pool) { return pool->destroyed && pool->is_empty(); }),
              all.end());
}

bool Device::reserve(State& state, Hold& hold, std::size_t bytes) {
    const auto fits = [&] { return reserved <= capacity && bytes <= capacity - reserved; };
    if (!fits()) {
        for (auto& pool : pools) pool->trim(state, hold, 0);
        if (!fits()) return false;
    }
    reserved += bytes;
    return true;
}

State& state() {
    static State& the_state = *new State;
    return the_state;
}

}  // namespace portamem::host
