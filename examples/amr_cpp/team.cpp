// SPDX-License-Identifier: MIT
// amr_cpp/team.cpp: threads that wait for their turn.
#include "team.hpp"

#include <utility>

namespace pm = portamem;

Team::Team(int device, int size) : members_(static_cast<std::size_t>(size)), begin_(pm::Event::create(device)) {
    for (Member& member : members_) {
        member.stream = pm::Stream::create(device);
        member.done = pm::Event::create(device);
    }
    for (int i = 1; i < size; ++i) members_[static_cast<std::size_t>(i)].thread = std::thread([this, i] { serve(i); });
}

Team::~Team() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        work_ = nullptr;
        ++turn_;
    }
    changed_.notify_all();
    for (Member& member : members_) {
        if (member.thread.joinable()) member.thread.join();
    }
}

void Team::run(const Work& work) {
    stream()->record(*begin_);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        work_ = &work;
        failure_ = nullptr;
        busy_ = size();
        ++turn_;
    }
    changed_.notify_all();
    take_part(0);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });
    if (failure_) {
        // What the others have queued uses memory that the caller is about to let go of.
        for (const Member& member : members_) member.stream->synchronize();
        std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    for (std::size_t i = 1; i < members_.size(); ++i) stream()->wait(*members_[i].done);
}

void Team::serve(int member) {
    for (unsigned seen = 0;; ++seen) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [&] { return turn_ != seen; });
            if (work_ == nullptr) return;
        }
        take_part(member);
    }
}

void Team::take_part(int member) noexcept {
    const Member& me = members_[static_cast<std::size_t>(member)];
    std::exception_ptr failure;
    try {
        if (member != 0) me.stream->wait(*begin_);
        (*work_)(member, me.stream);
        if (member != 0) me.stream->record(*me.done);
    } catch (...) {
        failure = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (--busy_ == 0) changed_.notify_all();
}
