// SPDX-License-Identifier: MIT
// portamem/mr/statistics_adaptor.hpp: how much memory is and was used, in all, by tag and by thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/recording_adaptor.hpp"

PORTAMEM_OPEN

/// Counts bytes as they were asked for, and allocations. Allocations of 0 bytes count in total_count alone.
using MemoryCounts = portamem_record_counts;

/// Counts the allocations that go through it: in all, by tag, by thread, and within scopes. Memory counts for the tag
/// and the thread that allocated it, whichever thread frees it.
class StatisticsAdaptor : public RecordingAdaptor {
  public:
    explicit StatisticsAdaptor(std::shared_ptr<MemoryResource> upstream) : RecordingAdaptor(std::move(upstream), 0) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<StatisticsAdaptor> create(std::shared_ptr<MemoryResource> upstream) {
        return detail::shared<StatisticsAdaptor>(std::move(upstream));
    }

    /// Returns the counts of the adaptor's whole life.
    MemoryCounts counts() const { return counts_of(0); }

    /// Returns the counts by tag; "" has the allocations without one.
    std::map<std::string, MemoryCounts> by_tag() const {
        using Counts = std::map<std::string, MemoryCounts>;
        Counts found;
        visit(PORTAMEM_COUNTS_BY_TAG, &found,
              [](void* self, const char* tag, std::uint64_t, const MemoryCounts* counts) {
                  static_cast<Counts*>(self)->insert({tag, {}}).first->second = *counts;
              });
        return found;
    }

    /// Returns the counts by the system's number of the thread. Where the system gave a number to a later thread too,
    /// the entry has the sum of both threads' counts, and the larger of their peaks.
    std::map<std::uint64_t, MemoryCounts> by_thread() const {
        using Counts = std::map<std::uint64_t, MemoryCounts>;
        Counts found;
        visit(PORTAMEM_COUNTS_BY_THREAD, &found,
              [](void* self, const char*, std::uint64_t thread, const MemoryCounts* counts) {
                  merge(static_cast<Counts*>(self)->insert({thread, {}}).first->second, *counts);
              });
        return found;
    }

    /// Starts the peaks again at the current figures, in open scopes too.
    void reset_peak() {
        refuse_forked();
        portamem_recorder_reset_peak(recorder());
    }

    /// Counts from 0 while it lives, on every thread. `current` is what was allocated and not freed since, and may be
    /// negative. Scopes may be nested and may overlap.
    class Scope {
      public:
        explicit Scope(std::shared_ptr<StatisticsAdaptor> of) : of_(std::move(of)), number_(of_->begin_scope()) {}
        ~Scope() { of_->end_scope(number_); }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

        /// Returns the counts since the scope began.
        MemoryCounts counts() const { return of_->counts_of(number_); }

      private:
        const std::shared_ptr<StatisticsAdaptor> of_;
        const std::uint64_t number_;
    };

    /// Open, end and read scopes by number, for other languages. begin_scope throws std::bad_alloc, and counts_of
    /// throws std::invalid_argument for a scope that is not open.
    std::uint64_t begin_scope() {
        refuse_forked();
        const std::uint64_t scope = portamem_recorder_scope_begin(recorder());
        if (scope == 0) throw std::bad_alloc();
        return scope;
    }
    void end_scope(std::uint64_t scope) noexcept { (void)portamem_recorder_scope_end(recorder(), scope); }
    MemoryCounts counts_of(std::uint64_t scope) const {
        refuse_forked();
        MemoryCounts counts{};
        if (portamem_recorder_counts(recorder(), scope, &counts) == 0) return counts;
        throw std::invalid_argument("the scope of statistics is not open");
    }

  private:
    void visit(int by, void* into, portamem_counts_visitor visitor) const {
        refuse_forked();
        if (portamem_recorder_visit_counts(recorder(), by, visitor, into) != 0) throw std::bad_alloc();
    }

    static void merge(MemoryCounts& into, const MemoryCounts& more) {
        into.current_bytes += more.current_bytes;
        into.current_count += more.current_count;
        into.peak_bytes = into.peak_bytes > more.peak_bytes ? into.peak_bytes : more.peak_bytes;
        into.peak_count = into.peak_count > more.peak_count ? into.peak_count : more.peak_count;
        into.total_bytes += more.total_bytes;
        into.total_count += more.total_count;
        into.failed_count += more.failed_count;
    }
};

PORTAMEM_CLOSE
