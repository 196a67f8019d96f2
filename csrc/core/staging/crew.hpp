// SPDX-License-Identifier: MIT
// core/staging/crew.hpp: threads that copy host memory together.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace portamem::staging {

/// Represents the process's helpers. They start at first need, sleep between copies, and are detached and leaked: a
/// process may exit while they sleep.
class Crew {
  public:
    static constexpr int kMostThreads = 64;

    static Crew& instance();

    /// Copies with up to `threads` threads, this one among them. Returns false, with nothing copied, while another
    /// caller uses the crew.
    bool copy(char* dst, const char* src, std::size_t nbytes, int threads);

  private:
    Crew() = default;

    void start_helpers(int wanted);
    void help(int number);
    void take_pieces();

    // One caller at a time.
    std::mutex callers_;

    // mutex_ guards the rest but next_. The job is written while no helper is inside.
    std::mutex mutex_;
    std::condition_variable work_, idle_;
    std::uint64_t turn_ = 0;  // of the present job; a helper takes part once in each
    int helpers_ = 0;         // that were started
    int wanted_ = 0;          // take part in the present job: those with lower numbers
    int inside_ = 0;          // are at the job now
    char* dst_ = nullptr;
    const char* src_ = nullptr;
    std::size_t nbytes_ = 0;
    std::atomic<std::size_t> next_{0};  // first byte that no thread has taken
};

}  // namespace portamem::staging
