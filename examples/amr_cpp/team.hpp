// SPDX-License-Identifier: MIT
// amr_cpp/team.hpp: threads that queue work, each on a stream of its own.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <portamem/portamem.hpp>

/// Its members live as long as it does, so that what a pool keeps for a thread and its stream is found again.
class Team {
  public:
    using Work = std::function<void(int member, const std::shared_ptr<portamem::Stream>& stream)>;

    Team(int device, int size);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return static_cast<int>(members_.size()); }
    /// The calling thread's, which is member 0.
    const std::shared_ptr<portamem::Stream>& stream() const { return members_[0].stream; }

    /// Every member does `work` once. What they queue runs behind what is on stream(), and what is queued there later
    /// behind all of it: by events, with nobody waiting on the host. Throws what a member threw.
    void run(const Work& work);

  private:
    struct Member {
        std::shared_ptr<portamem::Stream> stream;
        std::shared_ptr<portamem::Event> done;
        std::thread thread;  // none of member 0
    };

    void serve(int member);
    void take_part(int member) noexcept;

    std::vector<Member> members_;
    std::shared_ptr<portamem::Event> begin_;

    std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    const Work* work_ = nullptr;  // null: the end
    unsigned turn_ = 0;
    int busy_ = 0;
    std::exception_ptr failure_;
};
