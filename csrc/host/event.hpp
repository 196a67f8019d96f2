// SPDX-License-Identifier: MIT
// host/event.hpp: a mark in a stream's order.
#pragma once

#include <chrono>
#include <memory>

#include "capture.hpp"
#include "stream.hpp"

namespace portamem::host {

/// The time at which a mark was reached. Each record has its own, so that recording again does not disturb a stamp
/// under way.
struct Stamp {
    std::chrono::steady_clock::time_point when;
};

struct Event {
    int device = 0;
    unsigned flags = 0;
    Point point;                       ///< no stream: never recorded
    std::shared_ptr<Stamp> stamp;      ///< only for events with timing
    Clock seen;                        ///< the stream's waits when the event was recorded
    order::Mark mark;                  ///< the order checker's mark of the point
    std::shared_ptr<Capture> capture;  ///< set if the latest record was captured
    Branch branch;                     ///< the place in the capture

    bool is_timed() const { return (flags & pmhEventDisableTiming) == 0; }
};

}  // namespace portamem::host
