// SPDX-License-Identifier: MIT
// amr_cpp/memory.cpp: counts and times what is asked of a resource.
#include "memory.hpp"

#include <algorithm>
#include <chrono>

namespace pm = portamem;

namespace {

class Stopwatch {
  public:
    explicit Stopwatch(std::atomic<std::int64_t>& sum) : sum_(sum), begin_(Clock::now()) {}
    ~Stopwatch() { sum_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count(); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

  private:
    using Clock = std::chrono::steady_clock;
    std::atomic<std::int64_t>& sum_;
    const Clock::time_point begin_;
};

}  // namespace

Memory::Memory(std::shared_ptr<pm::MemoryResource> resource, std::shared_ptr<pm::StatisticsAdaptor> below)
    : resource_(std::move(resource)), below_(std::move(below)) {}

pm::Buffer Memory::allocate(std::size_t nbytes, const std::shared_ptr<pm::Stream>& stream) {
    pm::Buffer buffer = [&] {
        const Stopwatch timed(nanoseconds_);
        return pm::Buffer(resource_, nbytes, stream);
    }();
    ++allocations_;
    note(nbytes, 0);
    return buffer;
}

void Memory::give_back(pm::Buffer& buffer) noexcept {
    // Noted first: once it is back, another thread may have it, and it would count twice.
    note(0, buffer.nbytes());
    const Stopwatch timed(nanoseconds_);
    try {
        buffer.close();
    } catch (const std::exception&) {
        buffer.abandon();  // it goes back with whatever still holds it
    }
}

std::uint64_t Memory::runtime_calls() const {
    if (!below_) return 2 * allocations_ - resource_->live_buffers();
    const pm::MemoryCounts counts = below_->counts();
    return static_cast<std::uint64_t>(2 * counts.total_count - counts.current_count);
}

std::size_t Memory::peak_live() const {
    std::size_t most = 0;
    for (const Entry& entry : series_) most = std::max(most, entry.live);
    return most;
}

std::size_t Memory::peak_reserved() const {
    std::size_t most = 0;
    for (const Entry& entry : series_) most = std::max(most, entry.reserved);
    return most;
}

void Memory::note(std::size_t more, std::size_t less) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_ = live_ + more - less;
    series_.push_back({live_, below_ ? below_->live_bytes() : live_});
}
