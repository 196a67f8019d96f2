// SPDX-License-Identifier: MIT
// core/record/log.hpp: the log of a recorder: lines of JSON in a file.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "../order/call.hpp"
#include "portamem/abi/record_api.h"
#include "thread.hpp"

namespace portamem::record {

/// Returns the path that a pattern stands for: %r is the rank, %h the host's name, %p the process, %% a percent sign.
/// Throws std::invalid_argument for any other letter.
std::string expand_path(const std::string& pattern);

/// Returns the rank that the launcher gave this process; 0 where it gave none.
std::uint64_t rank();

/// A file with one line per call, between a header that names the format and an end line with the number of lines. The
/// numbers of the calls are an order in which they could have been made one after the other; the lines may be in
/// another.
class Log {
  public:
    static constexpr int kVersion = 1;

    /// Throws std::runtime_error and std::invalid_argument, with the reason in words.
    explicit Log(const std::string& pattern);
    ~Log();
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    const std::string& path() const noexcept { return path_; }

    /// Returns the number of the next call. A free takes it before the memory goes back, an allocation after it has
    /// memory.
    std::uint64_t next() noexcept { return sequence_.fetch_add(1, std::memory_order_relaxed) + 1; }

    struct Line {
        const char* event = "";
        std::uint64_t sequence = 0;
        std::uint64_t started = 0;  ///< in the time of steady_nanoseconds()
        ThreadNumber thread = 0;
        int depth = 0;
        TagId tag = 0;
        order::SiteId site = 0;
        bool is_allocation = false;
        const char* error = nullptr;
    };
    void write(const Line& line, const portamem_record_call& call) noexcept;
    void write_closed(std::uint64_t started, ThreadNumber thread, const portamem_record_resource& resource) noexcept;

    /// Writes the buffered lines. Returns 0 or an errno value.
    int flush() noexcept;
    /// Writes the end line, once. No line follows it.
    void end() noexcept;

  private:
    void define(const portamem_record_resource& resource);
    void define_stream(const portamem_record_call& call);
    void define_site(order::SiteId site);
    int hand_over() noexcept;
    template <class Function>
    void locked(Function&& function) noexcept;

    std::string path_;
    int file_ = -1;
    std::uint64_t began_ = 0;
    std::atomic<std::uint64_t> sequence_{0};

    std::mutex mutex_;  ///< a leaf; it guards the fields below
    std::string text_;
    std::unordered_set<std::uint64_t> resources_;
    std::unordered_set<std::uint64_t> streams_;
    std::unordered_set<order::SiteId> sites_;
    std::uint64_t written_ = 0;
    bool ended_ = false;
    int failed_ = 0;
};

std::uint64_t steady_nanoseconds() noexcept;
std::int64_t wall_nanoseconds() noexcept;

}  // namespace portamem::record
