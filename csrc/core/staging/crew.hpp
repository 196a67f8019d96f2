// SPDX-License-Identifier: MIT
// core/staging/crew.hpp: threads that work on one job together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace portamem::staging {

/// Represents the process's helpers. They start at first need, sleep between jobs, and are detached and leaked: a
/// process may exit while they sleep.
class Crew {
  public:
    static constexpr int kMostThreads = 64;

    using Work = void (*)(void* context, int number);

    static Crew& instance();

    /// Calls `work` on up to `threads` threads, this one among them. Returns false, with nothing called, while another
    /// caller uses the crew.
    bool run(Work work, void* context, int threads);

  private:
    Crew() = default;

    void start_helpers(int wanted);
    void help(int number);

    // One caller at a time.
    std::mutex callers_;

    // mutex_ guards what follows. The job is written while no helper is inside.
    std::mutex mutex_;
    std::condition_variable begins_, ends_;
    std::uint64_t turn_ = 0;  // of the present job; a helper takes part once in each
    int helpers_ = 0;         // that were started
    int wanted_ = 0;          // take part in the present job: those with lower numbers
    int inside_ = 0;          // are at the job now
    Work work_ = nullptr;
    void* context_ = nullptr;
};

}  // namespace portamem::staging
