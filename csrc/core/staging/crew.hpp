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
/// process may exit while they sleep. After a job a helper looks out for the next one for a moment before it sleeps,
/// because the parts of a large copy follow each other faster than a thread wakes up.
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
    void look_out(std::uint64_t seen) const;
    void take_pieces();

    // One caller at a time.
    std::mutex callers_;

    // mutex_ guards what follows. The job is written while no helper is inside.
    std::mutex mutex_;
    std::condition_variable work_;
    int helpers_ = 0;  // that were started
    int wanted_ = 0;   // take part in the present job: those with lower numbers
    char* dst_ = nullptr;
    const char* src_ = nullptr;
    std::size_t nbytes_ = 0;

    // A job begins, and helpers go inside, under mutex_. Both are read without it too.
    std::atomic<std::uint64_t> turn_{0};  // of the present job; a helper takes part once in each
    std::atomic<int> inside_{0};          // helpers that are at the job now

    std::atomic<std::size_t> next_{0};  // first byte that no thread has taken
};

}  // namespace portamem::staging
