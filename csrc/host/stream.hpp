// SPDX-License-Identifier: MIT
// host/stream.hpp: streams: in-order queues with a thread each, and the order among them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "../core/order/clock.hpp"
#include "portamem/host/runtime_api.h"

namespace portamem::host {

class Hold;
class Stream;
struct Capture;
struct Device;
struct State;

/// The number of an operation in its stream, from 1.
using Ticket = std::uint64_t;

/// A place in a stream's order: the end of one operation.
struct Point {
    std::shared_ptr<Stream> stream;
    Ticket ticket = 0;

    bool reached() const;
};

/// The operation up to which a stream waits for each other stream, by identity. The clock is bounded: a forgotten entry
/// costs a reuse of memory, never an order.
class Clock {
  public:
    void raise(std::uint64_t stream, Ticket ticket);
    void merge(const Clock& other);
    bool covers(std::uint64_t stream, Ticket ticket) const;

  private:
    std::vector<std::pair<std::uint64_t, Ticket>> entries_;
};

struct Operation {
    Ticket ticket = 0;
    std::vector<Point> waits;    ///< points of other streams, captured when the operation was submitted
    std::function<void()> work;  ///< runs with no lock held; empty for an operation that only waits
};

/// A stream. The runtime's lock guards everything in it that is not const.
class Stream : public std::enable_shared_from_this<Stream> {
  public:
    enum class Role { Legacy, PerThread, Created };

    Stream(int device_, Role role_, unsigned flags_);

    const int device;
    const Role role;
    const unsigned flags;
    const std::uint64_t identity;

    Ticket submitted = 0;
    Ticket completed = 0;
    Clock seen;
    order::Actor order;
    std::shared_ptr<Capture> capture;  ///< the capture that takes this stream's operations, if any
    std::condition_variable progress;  ///< signalled as `completed` grows

    bool is_legacy() const { return role == Role::Legacy; }
    /// Whether the stream is ordered against the legacy stream of its device.
    bool is_blocking() const { return !is_legacy() && (flags & pmhStreamNonBlocking) == 0; }
    bool is_idle() const { return completed == submitted; }
    Point end() { return {shared_from_this(), submitted}; }
    /// Null except for a created stream. Another stream may have the handle once this one is destroyed.
    pmhStream_t handle = nullptr;

    void push(std::vector<Point> waits, std::function<void()> work);

    /// Drains the queue; then the stream leaves its device.
    void retire();

  private:
    void start_worker();
    void drain();
    void leave_device();

    std::deque<Operation> queue_;
    std::condition_variable arrival_;
    bool running_ = false;
    bool retired_ = false;
};

inline bool Point::reached() const { return stream->completed >= ticket; }

/// Returns the stream of a handle: null, legacy and per-thread are the current device's. InvalidHandle for an unknown
/// one.
const std::shared_ptr<Stream>& stream_of(State& state, pmhStream_t handle);

/// Has the next question for a stream's number enter the runtime like any other call, because a knob may make it fail.
void forget_numbers_of_streams() noexcept;

/// Returns the points for which the next operation of a stream waits by the rule of the legacy default stream.
std::vector<Point> implied_waits(State& state, const Stream& stream);

/// Queues work behind the stream's own operations, the implied waits and the given ones.
Point submit(State& state, Stream& stream, std::function<void()> work, std::vector<Point> waits = {});

/// Returns a point that is reached when all that an operation submitted now would wait for is done. Queues nothing if
/// the stream's present end is such a point.
Point mark(State& state, Stream& stream);

/// Whether work submitted to `stream` from now on comes after `point`, without a new wait.
bool comes_after(State& state, const Stream& stream, const Point& point);

/// Blocks the calling thread, not the runtime. The order checker then knows that the host has waited for `seen`.
void wait_for(Hold& hold, const Point& point, const order::Mark& seen = {});
void wait_for(Hold& hold, const std::vector<Point>& points, const order::Mark& seen = {});

/// Returns the present ends of all streams of a device that have work.
std::vector<Point> pending_work(const Device& device);

}  // namespace portamem::host
