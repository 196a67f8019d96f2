// SPDX-License-Identifier: MIT
// portamem/detail/unfinished_work.hpp: the work of all streams of the process that may still run.
#pragma once

#include <algorithm>
#include <exception>

#include "portamem/detail/light_vector.hpp"
#include "portamem/handles_of_thread.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

namespace detail {

/// Notes before a fork what has run, for the child. It asks the runtime about each stream with declared work that is
/// not known to have run, and waits for nothing. Never throws.
inline void note_what_has_run() noexcept {
    if (!runtime_usable() || InHostFunction::here()) return;
    try {
        for (const DeclaredSoFar& unfinished : DeclaredWorks::instance().unfinished(DeclaredWorks::kEveryDevice)) {
            if (const auto stream = unfinished.work->stream.lock()) stream->note_what_has_run();
        }
    } catch (const std::exception&) {
        return;  // the child refuses what is not known to have run
    }
}

inline LightVector<int> busy_devices() noexcept {
    LightVector<int> devices;
    if (!runtime_usable() || InHostFunction::here()) return devices;
    try {
        const UntrackedQueries own;
        for (const auto& stream : KnownStreams::instance().all()) {
            const bool is_known = std::find(devices.begin(), devices.end(), stream->device()) != devices.end();
            if (!is_known && !stream->is_closed() && !stream->is_idle()) devices.push_back(stream->device());
        }
        if (!devices.empty()) devices.push_back(rt::CpuDeviceId);
    } catch (const std::exception&) {
        devices.clear();
    }
    return devices;
}

}  // namespace detail

PORTAMEM_CLOSE
