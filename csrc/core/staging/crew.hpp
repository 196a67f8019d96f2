// SPDX-License-Identifier: MIT
// core/staging/crew.hpp: threads that help with one job at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace portamem::staging {

/// What several threads do together.
class Job {
  public:
    Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    /// Runs on each helper, once. Returns when nothing is left to do.
    virtual void help() noexcept = 0;

  protected:
    ~Job() = default;
};

/// Represents the process's helpers. They start at first need, sleep between jobs, and are detached and leaked: a
/// process may exit while they sleep.
class Crew {
  public:
    static constexpr int kMostThreads = 64;

    static Crew& instance();

    /// Lets up to `helpers` helpers begin with the job, and returns at once. The caller ends each job that it began.
    /// Returns false, with nothing begun, while another caller has the crew.
    bool begin(Job& job, int helpers);

    /// Lets no further helper begin, and returns when those that did have ended.
    void end() noexcept;

  private:
    Crew() = default;

    void start_helpers(int wanted);
    void run(int number);

    std::mutex mutex_;  // guards all of it
    std::condition_variable begins_, ends_;
    Job* job_ = nullptr;      // null: no caller has the crew
    std::uint64_t turn_ = 0;  // of the present job; a helper takes part once in each
    int helpers_ = 0;         // that were started
    int wanted_ = 0;          // take part in the present job: those with lower numbers
    int inside_ = 0;          // are at the job now
};

}  // namespace portamem::staging
