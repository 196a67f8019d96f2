// SPDX-License-Identifier: MIT
// core/record/leaving.cpp: memory that was dropped and waits for its work: reports leave it out.
#include <atomic>
#include <cstddef>

#include "recorder.hpp"

namespace portamem::record {
namespace {

using IsLeaving = int (*)(const void* ptr, std::size_t nbytes);

// One function for each module of the process: a backend, in Python or in the program itself. Modules beyond
// kMostModules are not asked.
constexpr std::size_t kMostModules = 32;
std::atomic<IsLeaving> modules[kMostModules];

}  // namespace

bool is_leaving(const Live& live) noexcept {
    for (const auto& module : modules) {
        const IsLeaving ask = module.load(std::memory_order_acquire);
        if (ask == nullptr) return false;
        if (ask(reinterpret_cast<const void*>(live.address), live.nbytes) != 0) return true;
    }
    return false;
}

}  // namespace portamem::record

void portamem_record_leaving(int (*is_leaving)(const void* ptr, std::size_t nbytes)) {
    for (auto& module : portamem::record::modules) {
        portamem::record::IsLeaving none = nullptr;
        if (module.compare_exchange_strong(none, is_leaving, std::memory_order_acq_rel)) return;
    }
}
