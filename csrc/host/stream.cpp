// SPDX-License-Identifier: MIT
// host/stream.cpp: submission, the worker threads, and the order between streams.
#include "stream.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <thread>

#include "entry.hpp"
#include "order_hooks.hpp"

namespace portamem::host {

void Clock::raise(std::uint64_t stream, Ticket ticket) {
    constexpr std::size_t most = 32;
    for (auto& entry : entries_) {
        if (entry.first != stream) continue;
        entry.second = std::max(entry.second, ticket);
        return;
    }
    if (entries_.size() == most) entries_.erase(entries_.begin());
    entries_.emplace_back(stream, ticket);
}

void Clock::merge(const Clock& other) {
    for (const auto& entry : other.entries_) raise(entry.first, entry.second);
}

bool Clock::covers(std::uint64_t stream, Ticket ticket) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const auto& entry) { return entry.first == stream && entry.second >= ticket; });
}

Stream::Stream(int device_, Role role_, unsigned flags_)
    : device(device_), role(role_), flags(flags_), identity(portamem_new_identity()) {}

void Stream::push(std::vector<Point> waits, std::function<void()> work) {
    if (!running_) start_worker();
    queue_.push_back({submitted + 1, std::move(waits), std::move(work)});
    ++submitted;
    arrival_.notify_one();
}

void Stream::retire() {
    retired_ = true;
    if (running_) {
        arrival_.notify_one();
    } else {
        leave_device();
    }
}

void Stream::start_worker() {
    // Signals are for the program's own threads: a worker that took SIGINT would keep Python from seeing it.
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([self = shared_from_this()] { self->drain(); }).detach();
        running_ = true;
    } catch (const std::system_error&) {
        (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
        refuse(pmhErrorOutOfMemory, "the operating system would not start a stream's thread");
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Stream::drain() {
    std::unique_lock<std::mutex> lock(state().mutex);
    for (;;) {
        arrival_.wait(lock, [&] { return retired_ || !queue_.empty(); });
        if (queue_.empty()) break;
        Operation operation = std::move(queue_.front());
        queue_.pop_front();
        for (const Point& point : operation.waits) point.stream->progress.wait(lock, [&] { return point.reached(); });
        const Ticket ticket = operation.ticket;
        lock.unlock();
        if (operation.work) operation.work();
        operation = {};  // lets go of memory and streams before any thread learns that it is done
        lock.lock();
        completed = ticket;
        progress.notify_all();
    }
    leave_device();
}

void Stream::leave_device() {
    auto& streams = state().devices[static_cast<std::size_t>(device)]->streams;
    streams.erase(std::remove(streams.begin(), streams.end(), shared_from_this()), streams.end());
}

std::vector<Point> implied_waits(State& state, const Stream& stream) {
    std::vector<Point> waits;
    const Device& device = *state.devices[static_cast<std::size_t>(stream.device)];
    if (stream.is_legacy()) {
        for (const auto& other : device.streams)
            if (other->is_blocking() && !other->is_idle()) waits.push_back(other->end());
    } else if (stream.is_blocking() && !device.legacy->is_idle()) {
        waits.push_back(device.legacy->end());
    }
    return waits;
}

Point submit(State& state, Stream& stream, std::function<void()> work, std::vector<Point> waits) {
    for (Point& point : implied_waits(state, stream)) waits.push_back(std::move(point));
    stream.push(std::move(waits), std::move(work));
    note_operation(stream);
    return stream.end();
}

Point mark(State& state, Stream& stream) {
    std::vector<Point> waits = implied_waits(state, stream);
    if (!waits.empty()) stream.push(std::move(waits), nullptr);
    note_catch_up(stream);
    return stream.end();
}

bool comes_after(State& state, const Stream& stream, const Point& point) {
    const Stream& other = *point.stream;
    if (&other == &stream || stream.seen.covers(other.identity, point.ticket)) return true;
    const Device& device = *state.devices[static_cast<std::size_t>(stream.device)];
    return other.device == stream.device &&
           ((stream.is_legacy() && other.is_blocking()) || (stream.is_blocking() && &other == device.legacy.get()));
}

void wait_for(Hold& hold, const Point& point, const order::Mark& seen) {
    point.stream->progress.wait(hold.lock, [&] { return point.reached(); });
    note_reached(seen);
}

void wait_for(Hold& hold, const std::vector<Point>& points, const order::Mark& seen) {
    for (const Point& point : points) wait_for(hold, point);
    note_reached(seen);
}

std::vector<Point> pending_work(const Device& device) {
    std::vector<Point> points;
    for (const auto& stream : device.streams)
        if (!stream->is_idle()) points.push_back(stream->end());
    return points;
}

}  // namespace portamem::host
