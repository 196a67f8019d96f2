// SPDX-License-Identifier: MIT
// core/record/recorder.cpp: the recorder.
#include "recorder.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <vector>

#include "text.hpp"

namespace portamem::record {
namespace {

constexpr std::size_t kMostReported = 20;

struct Open {
    std::mutex mutex;
    std::vector<portamem_recorder*> recorders;
    void (*print)() = nullptr;
};

Open& open_recorders() {
    static auto* leaked = new Open;
    return *leaked;
}

// Ends all recorders under the lock, so that no thread deletes one meanwhile. The functions called here take only leaf
// locks.
void end_all() {
    if (portamem_forked() != 0) return;
    Open& open = open_recorders();
    const std::lock_guard<std::mutex> lock(open.mutex);
    for (portamem_recorder* recorder : open.recorders) recorder->end();
    if (open.print != nullptr) open.print();
}

void watch_exit() {
    static const int registered = std::atexit(end_all);
    (void)registered;
}

std::uint64_t pair_of(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }

}  // namespace

void end_at_exit(portamem_recorder& recorder) {
    watch_exit();
    Open& open = open_recorders();
    const std::lock_guard<std::mutex> lock(open.mutex);
    open.recorders.push_back(&recorder);
}

void forget_at_exit(portamem_recorder& recorder) noexcept {
    Open& open = open_recorders();
    const std::lock_guard<std::mutex> lock(open.mutex);
    open.recorders.erase(std::remove(open.recorders.begin(), open.recorders.end(), &recorder), open.recorders.end());
}

void print_at_exit(void (*print)()) {
    watch_exit();
    Open& open = open_recorders();
    const std::lock_guard<std::mutex> lock(open.mutex);
    open.print = print;
}

}  // namespace portamem::record

using portamem::record::call_depth;
using portamem::record::current_tag;
using portamem::record::Filed;
using portamem::record::Live;
using portamem::record::steady_nanoseconds;

portamem_recorder::portamem_recorder(unsigned flags, const std::string& log) : flags_(flags) {
    if (!log.empty()) log_ = std::make_unique<portamem::record::Log>(log);
    portamem::record::end_at_exit(*this);
    if ((flags_ & PORTAMEM_RECORD_SITES) != 0) __atomic_fetch_add(&portamem_record_sites, 1, __ATOMIC_RELAXED);
}

portamem_recorder::~portamem_recorder() {
    if ((flags_ & PORTAMEM_RECORD_SITES) != 0) __atomic_fetch_sub(&portamem_record_sites, 1, __ATOMIC_RELAXED);
    portamem::record::forget_at_exit(*this);
    end();
}

void portamem_recorder::begin(Call& call) const noexcept {
    call.depth = nests_ ? call_depth()++ : 0;
    if (log_) call.started = steady_nanoseconds();
}

void portamem_recorder::allocated(Call& call) {
    leave();
    const Filed filed{call.resource.identity, current_tag(), portamem::record::this_thread()};
    const auto site = site_of(call);
    if (call.ptr != nullptr) {
        Live live;
        live.address = reinterpret_cast<std::uintptr_t>(call.ptr);
        live.nbytes = call.nbytes;
        live.stream = call.stream;
        live.stream_device = call.stream_device;
        live.time = (flags_ & PORTAMEM_RECORD_SITES) == 0 ? 0 : portamem::record::wall_nanoseconds();
        live.filed = filed;
        live.site = site;
        live_.add(live);
    }
    tallies_.allocated(call.resource, filed, call.nbytes);
    if (log_) call.sequence = log_->next();
    write("alloc", call, site, true, nullptr);
}

void portamem_recorder::refused(Call& call, const char* why) {
    leave();
    tallies_.failed(call.resource, {call.resource.identity, current_tag(), portamem::record::this_thread()});
    if (log_) call.sequence = log_->next();
    write("alloc", call, site_of(call), true, why);
}

int portamem_recorder::free_begin(Call& call) {
    begin(call);
    int answer = PORTAMEM_FREE_KNOWN;
    call.is_taken = 0;
    call.live_nbytes = 0;
    if (call.ptr != nullptr) {
        const auto live = live_.take(call.resource.identity, reinterpret_cast<std::uintptr_t>(call.ptr));
        if (!live) {
            answer = PORTAMEM_FREE_UNKNOWN;
        } else {
            call.is_taken = 1;
            call.live_nbytes = live->nbytes;
            call.taken[0] = live->stream;
            call.taken[1] = portamem::record::pair_of(live->filed.tag, live->filed.thread);
            call.taken[2] = portamem::record::pair_of(live->site, static_cast<std::uint32_t>(live->stream_device));
            call.taken_time = live->time;
            tallies_.freed(live->filed, live->nbytes);
            if (live->nbytes != call.nbytes) answer = PORTAMEM_FREE_OTHER_SIZE;
        }
    }
    if (log_) call.sequence = log_->next();
    return answer;
}

void portamem_recorder::freed(Call& call, const char* why) {
    leave();
    if (why != nullptr && call.is_taken != 0) {
        Live live;
        live.address = reinterpret_cast<std::uintptr_t>(call.ptr);
        live.nbytes = call.live_nbytes;
        live.stream = call.taken[0];
        live.stream_device = static_cast<int>(static_cast<std::uint32_t>(call.taken[2]));
        live.time = call.taken_time;
        live.filed = {call.resource.identity, static_cast<portamem::record::TagId>(call.taken[1] >> 32),
                      static_cast<portamem::record::ThreadNumber>(call.taken[1])};
        live.site = static_cast<portamem::order::SiteId>(call.taken[2] >> 32);
        live_.add(live);
        tallies_.not_freed(live.filed, live.nbytes);
    }
    write("free", call, 0, false, why);
}

void portamem_recorder::used(Call& call) {
    call.depth = nests_ ? call_depth() : 0;
    call.started = steady_nanoseconds();
    if (log_) call.sequence = log_->next();
    write("record", call, 0, false, nullptr);
}

void portamem_recorder::closed(const portamem_record_resource& resource) {
    if (log_) log_->write_closed(steady_nanoseconds(), portamem::record::this_thread(), resource);
}

void portamem_recorder::end() noexcept {
    if (ended_.exchange(true)) return;
    if (log_) log_->end();
    if ((flags_ & PORTAMEM_RECORD_REPORT) == 0) return;
    try {
        const std::string text = report();
        (void)std::fwrite(text.data(), 1, text.size(), stderr);
    } catch (const std::exception&) {
        return;  // out of host memory: there is none to say so
    }
}

std::string portamem_recorder::report() const {
    auto live = live_.all();
    live.erase(std::remove_if(live.begin(), live.end(), portamem::record::is_leaving), live.end());
    if (live.empty()) return {};
    std::size_t nbytes = 0;
    for (const Live& each : live) nbytes += each.nbytes;
    std::string text = "portamem: " + std::to_string(live.size()) + " allocation(s) of " +
                       portamem::record::size_text(static_cast<double>(nbytes)) + " in all are still out:\n";
    for (std::size_t i = 0; i < std::min(live.size(), portamem::record::kMostReported); ++i) {
        const Live& each = live[i];
        text += "  " + std::to_string(each.nbytes) + " bytes";
        if (each.site != 0) text += " of " + portamem::order::describe(each.site);
        const std::string& tag = portamem::record::tag_text(each.filed.tag);
        if (!tag.empty()) text += ", tag " + tag;
        text += ", thread " + std::to_string(portamem::record::system_number(each.filed.thread)) + ", stream " +
                std::to_string(each.stream) + "\n";
    }
    if (live.size() > portamem::record::kMostReported)
        text += "  and " + std::to_string(live.size() - portamem::record::kMostReported) + " more\n";
    return text;
}

void portamem_recorder::leave() const noexcept {
    if (nests_) --call_depth();
}

portamem::order::SiteId portamem_recorder::site_of(const Call& call) const {
    return (flags_ & PORTAMEM_RECORD_SITES) == 0 ? 0 : portamem::order::number_site(call.site);
}

void portamem_recorder::write(const char* event, Call& call, portamem::order::SiteId site, bool is_allocation,
                              const char* error) {
    if (!log_) return;
    portamem::record::Log::Line line;
    line.event = event;
    line.sequence = call.sequence;
    line.started = call.started;
    line.thread = portamem::record::this_thread();
    line.depth = call.depth;
    line.tag = is_allocation ? current_tag() : 0;
    line.site = site;
    line.is_allocation = is_allocation;
    line.error = error;
    log_->write(line, call);
}
