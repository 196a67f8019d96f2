// SPDX-License-Identifier: MIT
// core/order/clock.hpp: vector clocks: how far one order of work has seen the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace portamem::order {

/// The number of an operation in its stream, from 1.
using Epoch = std::uint64_t;

/// For each stream (by an identity that is never reused) the last operation that is known to come before.
class Clock {
  public:
    void raise(std::uint64_t stream, Epoch epoch);
    void join(const Clock& other);

    /// Drops what another clock knows as well, where it has grown to twice of what the last time left: so that growing
    /// costs no more than the entries themselves.
    void forget(const Clock& known);

    bool covers(std::uint64_t stream, Epoch epoch) const;
    bool covers(const Clock& other) const;
    std::size_t size() const { return entries_.size(); }

  private:
    static constexpr std::size_t small = 32;

    std::vector<std::pair<std::uint64_t, Epoch>> entries_;  ///< by stream
    std::size_t forget_beyond_ = small;
};

/// A place in the order: the end of a stream's operation and all that comes before it. Empty where nothing is checked.
/// Of a place that is no stream's (all work of a device) `stream` is 0, and `seen` says everything.
struct Mark {
    std::uint64_t generation = 0;
    std::uint64_t stream = 0;
    Epoch epoch = 0;
    std::shared_ptr<const Clock> seen;
};

/// What the checker keeps of a stream, inside the runtime's own object. Guarded by the checker's lock.
struct Actor {
    std::uint64_t generation = 0;
    Epoch epoch = 0;                    ///< of the latest operation
    std::shared_ptr<const Clock> seen;  ///< of other streams; shared with marks, replaced and never changed
};

}  // namespace portamem::order
