// SPDX-License-Identifier: MIT
// python/plugins/hook_slots.hpp: C functions that know their hook, for libraries that hand no pointer on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "library_hook.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Gives each of up to kMost objects a set of functions of its own. Set is a class template over the slot's number with
/// a static `functions()`. An object that has a slot keeps it, and stays: a library may call at any later time.
template <class Object, template <std::size_t> class Set>
class HookSlots {
  public:
    static constexpr std::size_t kMost = 16;

    /// Returns the object of a slot, for the functions of that slot alone.
    static Object& of(std::size_t slot) noexcept { return *objects()[slot].load(std::memory_order_acquire); }

    /// Gives the object a slot, and returns its functions. Throws std::invalid_argument where none is left.
    static auto take(Object& object) {
        static std::atomic<std::size_t> taken{0};
        const std::size_t slot = taken.fetch_add(1);
        if (slot >= kMost) {
            taken.store(kMost);
            throw std::invalid_argument("a process can plug " + std::to_string(kMost) +
                                        " different resources into one library, and as many are plugged in: use one of "
                                        "them again");
        }
        objects()[slot].store(&object, std::memory_order_release);
        return all(std::make_index_sequence<kMost>{})[slot];
    }

  private:
    static std::array<std::atomic<Object*>, kMost>& objects() noexcept {
        static std::array<std::atomic<Object*>, kMost> all{};
        return all;
    }

    template <std::size_t... Slots>
    static auto all(std::index_sequence<Slots...>) {
        return std::array{Set<Slots>::functions()...};
    }
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
