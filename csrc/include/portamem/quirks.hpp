// SPDX-License-Identifier: MIT
// portamem/quirks.hpp: known faults of runtimes, as data: where each is, what portamem does about it, where it was
// reported.
#pragma once

#include <cstdlib>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "portamem/device.hpp"
#include "portamem/process_object.hpp"

PORTAMEM_OPEN

/// Names what portamem does about a quirk.
enum class QuirkPolicy {
    FreeOnAllocatingStream,  ///< stream-ordered memory goes back on the stream that it came from
    AtLeastEightBytes,       ///< smaller stream-ordered requests take eight bytes
    ExplicitCopyKind,        ///< copies of rows and boxes are told their direction
    Bridged,                 ///< handled on the ground floor in any case: it cannot be switched
    Report,                  ///< shown for the user to know; on or off changes nothing else
};

/// Describes one known fault. It applies to devices of the backend whose architecture begins with `arch`, under
/// runtimes from `first` up to, but not including, `fixed` (numbered as rt::RuntimeGetVersion; 0: no such bound).
struct Quirk {
    const char* name;
    portamem_backend backend;
    const char* arch;
    int first;
    int fixed;
    QuirkPolicy policy;
    const char* about;   ///< a sentence that says what goes wrong
    const char* thread;  ///< the public reports, as owner/repository#number, with commas between
};

/// Lists all known faults. Arch "gfx" leaves out HIP on other devices.
inline constexpr Quirk kQuirks[] = {
    {"free_on_other_stream", PORTAMEM_BACKEND_HIP, "gfx", 0, 0, QuirkPolicy::FreeOnAllocatingStream,
     "memory of a pool that was freed on another stream than its own may be handed out while it is in use: data comes "
     "out zeroed or corrupt (seen with gfx1030, HIP 7.2)",
     "ROCm/rocm-systems#10943, OpenNMT/CTranslate2#2090"},
    {"tiny_pool_allocation", PORTAMEM_BACKEND_HIP, "gfx", 50700000, 60000000, QuirkPolicy::AtLeastEightBytes,
     "stream-ordered allocations of less than 8 bytes fail or hang", "ROCm/HIP#3370"},
    {"pitched_copy_direction", PORTAMEM_BACKEND_HIP, "gfx", 50600000, 60100000, QuirkPolicy::ExplicitCopyKind,
     "a 2-D copy that is to find out its direction is refused (InvalidValue) where memory of the host takes part that "
     "lies far enough behind the beginning of its allocation",
     "ROCm/clr#40, oneapi-src/unified-runtime#2268"},
    {"pinned_flags_drop_coherence", PORTAMEM_BACKEND_HIP, "gfx", 0, 0, QuirkPolicy::Bridged,
     "pinned memory that is portable or write-combined is non-coherent unless coherence is asked for; portamem asks",
     "kokkos/kokkos#5152"},
    {"release_threshold_ignored", PORTAMEM_BACKEND_HIP, "gfx", 0, 0, QuirkPolicy::Report,
     "a pool may accept a release threshold and ignore it: Device.probe() tells, trim() gives memory back",
     "ROCm/rocm-systems#11690"},
    {"cached_blocks_fit_badly", PORTAMEM_BACKEND_HIP, "gfx", 0, 70000000, QuirkPolicy::Report,
     "a pool reuses a block only for nearly its size, and runs out where plain device memory fits: trim() before large "
     "allocations",
     "ROCm/HIP#3775, kokkos/kokkos#8008"},
    {"failed_allocation_keeps_memory", PORTAMEM_BACKEND_HIP, "gfx", 70200000, 0, QuirkPolicy::Report,
     "a stream-ordered allocation that fails keeps the memory it had taken so far until the process ends",
     "ROCm/rocm-systems#11643"},
    {"peer_copy_of_pool_memory", PORTAMEM_BACKEND_CUDA, "sm_75", 13020, 0, QuirkPolicy::Report,
     "a copy between devices right after a pool was opened to the other device may write nothing",
     "JuliaGPU/CUDA.jl#3112"},
};

/// Represents a quirk of a device. It is not active where it was switched off.
struct DeviceQuirk {
    const Quirk* quirk = nullptr;
    bool active = true;
};

namespace detail {

inline bool applies(const Quirk& quirk, portamem_backend backend, std::string_view arch, int runtime) {
    return quirk.backend == backend && arch.substr(0, std::string_view(quirk.arch).size()) == quirk.arch &&
           runtime >= quirk.first && (quirk.fixed == 0 || runtime < quirk.fixed);
}

inline const Quirk& quirk_called(std::string_view name) {
    std::string all;
    for (const Quirk& quirk : kQuirks) {
        if (name == quirk.name) return quirk;
        all += all.empty() ? quirk.name : std::string(", ") + quirk.name;
    }
    throw std::invalid_argument("there is no quirk called '" + std::string(name) + "': they are " + all);
}

inline void refuse_bridged(const Quirk& quirk) {
    if (quirk.policy != QuirkPolicy::Bridged) return;
    throw std::invalid_argument("quirk '" + std::string(quirk.name) + "' is met in any case and cannot be switched");
}

/// Says which quirks were switched on or off, in the order of kQuirks.
class QuirkChoices {
  public:
    std::optional<bool>& of(const Quirk& quirk) noexcept { return switched_[&quirk - kQuirks]; }
    bool empty() const noexcept {
        for (const auto& one : switched_) {
            if (one) return false;
        }
        return true;
    }

  private:
    std::optional<bool> switched_[sizeof(kQuirks) / sizeof(kQuirks[0])];
};

/// Parses "name=off,other=on". Throws std::invalid_argument for anything else.
inline QuirkChoices read_quirk_choices(std::string_view text) {
    QuirkChoices chosen;
    while (!text.empty()) {
        const std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(item.size() == text.size() ? item.size() : item.size() + 1);
        if (item.empty()) continue;
        const std::size_t equals = item.find('=');
        const std::string_view name = item.substr(0, equals);
        const std::string_view value = equals == item.npos ? std::string_view() : item.substr(equals + 1);
        if (value != "on" && value != "off") {
            throw std::invalid_argument("'" + std::string(item) + "' switches no quirk: write name=on or name=off");
        }
        const Quirk& quirk = quirk_called(name);
        refuse_bridged(quirk);
        chosen.of(quirk) = value == "on";
    }
    return chosen;
}

/// Holds which quirks the program has switched on or off, by PORTAMEM_QUIRKS or later, for all modules of the process.
/// A quirk that is not in `chosen` follows the device and the version of its runtime.
struct QuirkSwitches {
    std::mutex mutex;  // guards `chosen`
    QuirkChoices chosen;
    std::string refused;  // why the environment could not be parsed

    QuirkSwitches() {
        const char* text = std::getenv("PORTAMEM_QUIRKS");
        try {
            if (text != nullptr) chosen = read_quirk_choices(text);
        } catch (const std::invalid_argument& e) {
            refused = std::string("PORTAMEM_QUIRKS=") + text + ": " + e.what();
        }
    }

    /// Throws std::invalid_argument where PORTAMEM_QUIRKS could not be parsed.
    void require_readable() const {
        if (!refused.empty()) throw std::invalid_argument(refused);
    }

    /// Returns how the program has switched a quirk, or nothing where it has not. Throws as require_readable does.
    std::optional<bool> of(const Quirk& quirk) {
        require_readable();
        const std::lock_guard<std::mutex> lock(mutex);
        return chosen.of(quirk);
    }
};

inline QuirkSwitches& quirk_switches() {
    static auto& one = process_object<QuirkSwitches>("quirk switches");
    return one;
}

}  // namespace detail

/// Switches a quirk's policy on or off on every device. It affects resources made later, and copies queued later, by
/// all modules of the process that have the same backend and the same headers.
/// - nullopt goes back to the table. PORTAMEM_QUIRKS=name=off,other=on does the same from the start.
/// - Returns how it was switched before; the program puts that back with another call.
/// - Throws std::invalid_argument for an unknown name and for a bridged quirk. Throws Error, named Forked, in a child
///   of fork.
inline std::optional<bool> set_quirk(const std::string& name, std::optional<bool> on) {
    refuse_forked();
    const Quirk& quirk = detail::quirk_called(name);
    detail::refuse_bridged(quirk);
    auto& switches = detail::quirk_switches();
    const std::lock_guard<std::mutex> lock(switches.mutex);
    return std::exchange(switches.chosen.of(quirk), on);
}

namespace detail {

inline bool applies(const Quirk& quirk, const Device& device) {
    if (quirk.backend != rt::BackendId) return false;  // tested before the device is asked
    int runtime = 0;
    check(rt::RuntimeGetVersion(&runtime), "RuntimeGetVersion");
    if (runtime < quirk.first || (quirk.fixed != 0 && runtime >= quirk.fixed)) return false;  // properties take long
    return applies(quirk, rt::BackendId, device.properties().arch, runtime);
}

}  // namespace detail

/// Returns the quirks of a device: those that apply to it, and those that were switched on. Creates no context. Throws
/// std::invalid_argument where PORTAMEM_QUIRKS cannot be parsed.
inline std::vector<DeviceQuirk> quirks(const Device& device) {
    refuse_forked();
    std::vector<DeviceQuirk> found;
    for (const Quirk& quirk : kQuirks) {
        const auto chosen = detail::quirk_switches().of(quirk);
        if (chosen.value_or(false) || detail::applies(quirk, device)) found.push_back({&quirk, chosen.value_or(true)});
    }
    return found;
}

/// Returns whether portamem has to follow a policy on a device. Throws as quirks does.
inline bool quirk_policy_applies(QuirkPolicy policy, const Device& device) {
    refuse_forked();
    for (const Quirk& quirk : kQuirks) {
        if (quirk.policy != policy) continue;
        const auto chosen = detail::quirk_switches().of(quirk);
        if (chosen ? *chosen : detail::applies(quirk, device)) return true;
    }
    return false;
}

PORTAMEM_CLOSE
