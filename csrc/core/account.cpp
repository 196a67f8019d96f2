// SPDX-License-Identifier: MIT
// core/account.cpp: bytes that portamem holds, per device.
#include <array>
#include <atomic>

#include "backends.hpp"
#include "default_resource.hpp"
#include "portamem/c_api.h"

namespace {

// One slot per device, host memory first. Ordinals beyond the table share its last slot: its count is a sum, but no
// count is lost.
constexpr int kSlots = 130;

std::atomic<int64_t>* slot(portamem_backend backend, int device) {
    static std::array<std::array<std::atomic<int64_t>, kSlots>, portamem::kBackends> held{};
    const int index = device < 0 ? 0 : (device + 1 < kSlots ? device + 1 : kSlots - 1);
    return &held[static_cast<std::size_t>(backend)][static_cast<std::size_t>(index)];
}

}  // namespace

void portamem_account(portamem_backend backend, int device, int64_t delta_bytes) {
    slot(backend, device)->fetch_add(delta_bytes, std::memory_order_relaxed);
}

uint64_t portamem_held(portamem_backend backend, int device) {
    const int64_t bytes = slot(backend, device)->load(std::memory_order_relaxed);
    if (bytes <= 0) return 0;
    const auto held = static_cast<uint64_t>(bytes);
    const uint64_t cached = portamem::offered_default_cached(backend, device);
    return held > cached ? held - cached : 0;
}
