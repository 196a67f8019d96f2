// SPDX-License-Identifier: MIT
// core/order/clock.hpp: vector clocks: how far one order of work has seen every other order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace portamem::order {

/// The number of an operation in its stream, from 1.
using Epoch = std::uint64_t;

/// The last operation of each stream that is known to come before. Streams have identities that are never reused.
class Clock {
  public:
    void raise(std::uint64_t stream, Epoch epoch);
    void join(const Clock& other);

    /// Drops entries that another clock knows too, once this clock has twice as many as the last drop left. Growing
    /// therefore costs no more than the entries themselves.
    void forget(const Clock& known);

    bool covers(std::uint64_t stream, Epoch epoch) const;
    bool covers(const Clock& other) const;
    std::size_t size() const { return entries_.size(); }

  private:
    static constexpr std::size_t small = 32;

    std::vector<std::pair<std::uint64_t, Epoch>> entries_;  ///< sorted by stream
    std::size_t forget_beyond_ = small;
};

/// A place in the order: the end of a stream's operation, and all that comes before it. Empty where checking is off. A
/// place of no stream (all work of a device) has `stream` 0, and `seen` says everything.
struct Mark {
    std::uint64_t generation = 0;
    std::uint64_t stream = 0;
    Epoch epoch = 0;
    std::shared_ptr<const Clock> seen;
};

/// The checker's notes on a stream, inside the runtime's own object. The checker's lock guards them.
struct Actor {
    std::uint64_t generation = 0;
    Epoch epoch = 0;                    ///< the number of the latest operation
    std::shared_ptr<const Clock> seen;  ///< operations of other streams; shared with marks, replaced and never changed
};

}  // namespace portamem::order
