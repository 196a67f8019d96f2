// SPDX-License-Identifier: MIT
// core/order/checker.cpp: the rules of order, and the search for uses that none of them covers.
#include "checker.hpp"

#include <algorithm>
#include <utility>

namespace portamem::order {
namespace {

Range range_of(const void* ptr, std::size_t nbytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    return {begin, begin + nbytes};
}

// Visits the ranges of a shape's rows. Rows without padding between them are one range.
template <class Visit>
void each_row(const Shape& shape, std::size_t most, Visit&& visit) {
    const bool whole_slices = shape.rows == 1 || shape.pitch == shape.width;
    const std::size_t rows = whole_slices ? 1 : shape.rows;
    const std::size_t width = whole_slices ? shape.width * shape.rows : shape.width;
    const char* base = static_cast<const char*>(shape.ptr);
    std::size_t count = 0;
    for (std::size_t z = 0; z < shape.slices; ++z) {
        for (std::size_t y = 0; y < rows; ++y) {
            if (count++ == most) return;
            visit(range_of(base + z * shape.slice + y * shape.pitch, width));
        }
    }
}

}  // namespace

// One operation, or one call of the host, with its view of the order and of memory.
class Checker::Present {
  public:
    Present(Checker& checker, const StreamName* stream, const Actor* actor) : checker_(checker), actor_(actor) {
        me_.stream = stream == nullptr ? 0 : stream->identity;
        me_.epoch = actor == nullptr ? 1 : actor->epoch;
        me_.site = Call::site();
        me_.call = Call::name();
    }

    const Access& access() const { return me_; }

    bool comes_after(const Access& other) const {
        if (other.epoch == 0) return true;
        // Calls of the host are in order, and before all work that is submitted later.
        if (other.stream == 0) return true;
        if (other.stream == me_.stream) return true;
        if (actor_ != nullptr && actor_->seen != nullptr && actor_->seen->covers(other.stream, other.epoch))
            return true;
        return is_over(other);
    }

    /// Whether everything from here on comes after a use, so that it can be forgotten.
    bool is_over(const Access& other) const { return checker_.host_.covers(other.stream, other.epoch); }

    void found(Fault fault, const Access& earlier, Range part) { checker_.add(fault, earlier, me_, part, told_); }

    void check_allocation(Fault fault, Range part, Uses& uses) {
        if (!comes_after(uses.allocated)) found(fault, uses.allocated, part);
        if (is_over(uses.allocated)) uses.allocated = {};
    }

    void read(Range part, Uses& uses, bool only_moves) {
        check_allocation(Fault::UseBeforeAllocation, part, uses);
        if (!only_moves && !comes_after(uses.written)) found(Fault::ReadAfterWrite, uses.written, part);
        if (is_over(uses.written)) uses.written = {};
        // A use that comes after this reading comes after those before it. A prefetch cannot stand in for a reading.
        drop(uses.readings, [&](const Reading& other) {
            return comes_after(other.access) && (!only_moves || other.only_moves || is_over(other.access));
        });
        uses.readings.push_back({me_, only_moves});
    }

    void write(Range part, Uses& uses) {
        check_allocation(Fault::UseBeforeAllocation, part, uses);
        if (!comes_after(uses.written)) found(Fault::WriteAfterWrite, uses.written, part);
        for (const Reading& other : uses.readings)
            if (!other.only_moves && !comes_after(other.access)) found(Fault::WriteAfterRead, other.access, part);
        drop(uses.readings, [&](const Reading& other) { return !other.only_moves || comes_after(other.access); });
        uses.written = me_;
    }

    void free(Range part, Uses& uses) {
        // A free by the host needs no order behind the allocation: the program has done with the memory.
        if (actor_ != nullptr) check_allocation(Fault::FreeBeforeAllocation, part, uses);
        if (!comes_after(uses.written)) found(Fault::FreeInUse, uses.written, part);
        for (const Reading& other : uses.readings)
            if (!comes_after(other.access)) found(Fault::FreeInUse, other.access, part);
    }

  private:
    template <class Which>
    static void drop(std::vector<Reading>& readings, Which&& which) {
        readings.erase(std::remove_if(readings.begin(), readings.end(), which), readings.end());
    }

    Checker& checker_;
    const Actor* actor_;
    Access me_;
    std::vector<std::size_t> told_;  ///< findings that this operation has added to, once each
};

Checker& Checker::instance() {
    static auto* leaked = new Checker;
    return *leaked;
}

std::uint64_t Checker::begin(bool prints) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sessions_.empty()) {
        reset();
        ++generation_;
    }
    Session session;
    session.prints = prints;
    for (const Finding& finding : findings_) session.counts.push_back(finding.count);
    sessions_.emplace(++last_session_, std::move(session));
    detail::active.store(true, std::memory_order_relaxed);
    return last_session_;
}

bool Checker::visit(std::uint64_t number, const std::function<void(const Report&)>& visitor) {
    std::vector<Report> reports;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = sessions_.find(number);
        if (found == sessions_.end()) return false;
        const auto& before = found->second.counts;
        for (std::size_t i = 0; i < findings_.size(); ++i) {
            const std::uint64_t known = i < before.size() ? before[i] : 0;
            if (findings_[i].count == known) continue;
            reports.push_back(report(i));
            reports.back().finding.count -= known;
        }
    }
    for (Report& each : reports) {  // places are named with no lock held, because that may take the loader's lock
        each.earlier.site = describe(each.finding.earlier.site);
        each.later.site = describe(each.finding.later.site);
        visitor(each);
    }
    return true;
}

bool Checker::end(std::uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sessions_.erase(number) == 0) return false;
    if (!sessions_.empty()) return true;
    detail::active.store(false, std::memory_order_relaxed);
    reset();
    return true;
}

void Checker::reset() {
    domains_.clear();
    host_ = {};
    names_.clear();
    shadow_ = {};
    findings_.clear();
    known_.clear();
    lost_ = 0;
    unprinted_.clear();
    has_unprinted_.store(false, std::memory_order_relaxed);
}

// Resets an actor whose notes are of an earlier session: they say nothing now.
void Checker::renew(Actor& actor) const {
    if (actor.generation != generation_) actor = {generation_, 0, nullptr};
}

// Returns true if the clock had something new. Work that the host has waited for is dropped, because it comes before
// everything.
bool Checker::join(Actor& actor, const Clock& clock, std::uint64_t stream, Epoch epoch) const {
    const bool knows_stream =
        epoch == 0 || host_.covers(stream, epoch) || (actor.seen != nullptr && actor.seen->covers(stream, epoch));
    if (knows_stream && (clock.size() == 0 || (actor.seen != nullptr && actor.seen->covers(clock)))) return false;
    auto joined = actor.seen == nullptr ? std::make_shared<Clock>() : std::make_shared<Clock>(*actor.seen);
    joined->join(clock);
    if (epoch != 0) joined->raise(stream, epoch);
    joined->forget(host_);
    actor.seen = std::move(joined);
    return true;
}

void Checker::publish(const StreamName& stream, const Actor& actor, bool has_seen_more) {
    Domain& domain = domains_[stream.device];
    const auto into = [&](Clock& clock) {
        if (actor.epoch != 0) clock.raise(stream.identity, actor.epoch);
        if (has_seen_more && actor.seen != nullptr) clock.join(*actor.seen);
        clock.forget(host_);
    };
    into(domain.all);
    if (stream.role == Role::Blocking) into(domain.blocking);
    if (stream.role == Role::Legacy) domain.legacy = {generation_, stream.identity, actor.epoch, actor.seen};
}

void Checker::follow(const StreamName& stream, Actor& actor) {
    renew(actor);
    const Domain& domain = domains_[stream.device];
    bool changed = false;
    if (stream.role == Role::Legacy) {
        changed = join(actor, domain.blocking, 0, 0);
    } else if (stream.role == Role::Blocking && domain.legacy.stream != 0) {
        static const Clock nothing;
        const Mark& legacy = domain.legacy;
        changed = join(actor, legacy.seen == nullptr ? nothing : *legacy.seen, legacy.stream, legacy.epoch);
    }
    if (changed) publish(stream, actor, true);
}

void Checker::step(const StreamName& stream, Actor& actor) {
    follow(stream, actor);
    if (++actor.epoch == 1) names_.emplace(stream.identity, stream);
    publish(stream, actor, false);
}

void Checker::operation(const StreamName& stream, Actor& actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    step(stream, actor);
}

void Checker::catch_up(const StreamName& stream, Actor& actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    follow(stream, actor);
}

Mark Checker::mark(const StreamName& stream, Actor& actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    renew(actor);
    return {generation_, stream.identity, actor.epoch, actor.seen};
}

Mark Checker::mark_for_host(const StreamName& stream, Actor& actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    renew(actor);
    if (stream.role != Role::Legacy) return {generation_, stream.identity, actor.epoch, actor.seen};
    auto seen = std::make_shared<Clock>(domains_[stream.device].blocking);
    if (actor.seen != nullptr) seen->join(*actor.seen);
    return {generation_, stream.identity, actor.epoch, std::move(seen)};
}

Mark Checker::mark_of_device(int device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto all = std::make_shared<Clock>();
    for (const auto& [ordinal, domain] : domains_)
        if (device < 0 || ordinal == device) all->join(domain.all);
    return {generation_, 0, 0, std::move(all)};
}

void Checker::wait(const StreamName& stream, Actor& actor, const Mark& mark) {
    const std::lock_guard<std::mutex> lock(mutex_);
    renew(actor);
    if (mark.generation != generation_) return;
    static const Clock nothing;
    if (join(actor, mark.seen == nullptr ? nothing : *mark.seen, mark.stream, mark.epoch)) publish(stream, actor, true);
}

void Checker::host_waited(const Mark& mark) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mark.generation != generation_) return;
    if (mark.epoch != 0) host_.raise(mark.stream, mark.epoch);
    if (mark.seen != nullptr) host_.join(*mark.seen);
}

void Checker::settle(Range range, const Mark& mark) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mark.generation != generation_) return;
    const auto is_over = [&](const Access& use) {
        if (mark.epoch != 0 && use.stream == mark.stream && use.epoch <= mark.epoch) return true;
        return mark.seen != nullptr && mark.seen->covers(use.stream, use.epoch);
    };
    shadow_.change_known(range, [&](Range, Uses& uses) {
        if (is_over(uses.allocated)) uses.allocated = {};
        if (is_over(uses.written)) uses.written = {};
        auto& readings = uses.readings;
        const auto over = [&](const Reading& reading) { return is_over(reading.access); };
        readings.erase(std::remove_if(readings.begin(), readings.end(), over), readings.end());
    });
}

void Checker::begin_life(Range range, const StreamName* stream, Actor* actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stream == nullptr) return shadow_.begin(range, {});
    step(*stream, *actor);
    shadow_.begin(range, Present(*this, stream, actor).access());
}

void Checker::end_life(Range range, const StreamName* stream, Actor* actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stream != nullptr) step(*stream, *actor);
    Present present(*this, stream, actor);
    shadow_.take(range, [&](Range part, Uses& uses) { present.free(part, uses); });
    shadow_.note_freed(range, present.access());
}

void Checker::end_life_waited(Range range) {
    const std::lock_guard<std::mutex> lock(mutex_);
    shadow_.take(range, [](Range, const Uses&) {});
}

void Checker::access(Kind kind, const Shape& shape, const StreamName& stream, Actor& actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    renew(actor);
    Present present(*this, &stream, &actor);
    each_row(shape, most_rows, [&](Range row) {
        shadow_.change(row, [&](Range part, Uses& uses) {
            if (kind == Kind::Write) {
                present.write(part, uses);
            } else {
                present.read(part, uses, kind == Kind::Prefetch);
            }
        });
    });
}

bool Checker::stray(const void* ptr, std::size_t nbytes, const StreamName& stream, Actor& actor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Range range = range_of(ptr, nbytes);
    const auto freed = shadow_.freed_at(range.begin);
    if (!freed) return false;
    step(stream, actor);
    Present(*this, &stream, &actor).found(Fault::UseAfterFree, *freed, range);
    return true;
}

void Checker::forget(Range range) {
    const std::lock_guard<std::mutex> lock(mutex_);
    shadow_.forget_freed(range);
}

void Checker::add(Fault fault, const Access& earlier, const Access& later, Range part, std::vector<std::size_t>& told) {
    const auto text = [](const char* call) {
        return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call));
    };
    // The streams stand for an unknown place.
    const std::vector<std::uint64_t> key{static_cast<std::uint64_t>(fault),
                                         earlier.site,
                                         later.site,
                                         text(earlier.call),
                                         text(later.call),
                                         earlier.site == 0 ? earlier.stream : 0,
                                         later.site == 0 ? later.stream : 0};
    const auto known = known_.find(key);
    if (known == known_.end()) {
        if (findings_.size() == most_findings) {
            ++lost_;
            return;
        }
        const std::size_t index = findings_.size();
        findings_.push_back({fault, earlier, later, part.begin, part.end - part.begin, 1});
        known_.emplace(key, index);
        told.push_back(index);
        unprinted_.push_back(index);
        has_unprinted_.store(true, std::memory_order_relaxed);
        return;
    }
    Finding& finding = findings_[known->second];
    if (std::find(told.begin(), told.end(), known->second) == told.end()) {
        ++finding.count;
        told.push_back(known->second);
    } else if (finding.count == 1 && part.begin == finding.address + finding.nbytes) {
        finding.nbytes += part.end - part.begin;  // the same use goes on in the next piece
    }
}

}  // namespace portamem::order
