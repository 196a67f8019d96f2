// SPDX-License-Identifier: MIT
// portamem/detail/allocation_users.hpp: how an Allocation keeps the streams that use its memory, and waits for them.
#pragma once

#include "portamem/allocation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "portamem/declared_work.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/error.hpp"
#include "portamem/event.hpp"
#include "portamem/kept.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

inline void Allocation::use_on(const std::shared_ptr<Stream>& stream) {
    used_.store(true, std::memory_order_release);
    const std::uint64_t number = stream->declare();
    if (stream == *stream_) return note_use_here(number);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto user = std::find(users_.begin(), users_.end(), stream);
        if (user != users_.end()) return raise_to(latest_use(user), number);
    }
    stream->refuse_capture("declaring a use of memory");
    refuse_captured(**stream_, "using memory on another stream");
    stream->wait(**stream_);
    shared_.store(true, std::memory_order_release);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        add_user(stream, number);
    }
    if (resource_) resource_->note_use(ptr_, nbytes_, *stream);
}

inline void Allocation::runs_until(const Stream& stream, const std::shared_ptr<Event>& done) {
    if (traits_->stream_ordered) return;
    std::shared_ptr<Event> left;  // goes without the lock
    std::lock_guard<std::mutex> lock(mutex_);
    left = operations_.add(stream, done);
}

inline void Allocation::order_behind_users(Stream& stream) {
    const auto users = all_users();
    if (users.size() > 1) stream.refuse_capture("using memory on another stream");
    for (const auto& user : users) {
        refuse_captured(*user, "using memory on another stream");
        stream.wait(*user);
    }
}

inline void Allocation::hand_over(const std::shared_ptr<Stream>& stream) {
    if (hand_over_at_once(stream)) return;
    used_.store(true, std::memory_order_release);
    const std::uint64_t number = stream->declare();
    const auto before = all_users();
    const auto same = std::find_if(before.begin(), before.end(), [&](const std::shared_ptr<Stream>& user) {
        return is_open(*user) && user->has_handle_of(*stream);
    });
    bool refused = false;  // only a stream that waits needs the check
    for (const auto& user : before) {
        if (same != before.end() && user == *same) continue;
        if (!refused) stream->refuse_capture("handing memory over");
        refused = true;
        refuse_captured(*user, "handing memory over");
        stream->wait(*user);
    }
    if (same != before.end()) return declare_for(*same);
    shared_.store(true, std::memory_order_release);
    std::lock_guard<std::mutex> lock(mutex_);
    if (stream->is_default()) {
        add_user(stream, number);
    } else if (std::find(borrowers_.begin(), borrowers_.end(), stream->device()) == borrowers_.end()) {
        borrowers_.push_back(stream->device());
    }
}

inline std::shared_ptr<Stream> Allocation::exchange_stream() {
    const Stream::Use use(**stream_);  // another thread may close it meanwhile
    auto stream = use ? *stream_ : stand_in(**stream_);
    const auto declared = users();
    if (!declared.empty()) stream->refuse_capture("handing memory over");
    for (const auto& user : declared) {
        refuse_captured(*user, "handing memory over");
        stream->wait(*user);
    }
    return stream;
}

inline void Allocation::synchronize_users() {
    for (const auto& user : all_users()) {
        refuse_captured(*user, "waiting for the users of memory");
        const detail::DeclaredSoFar so_far = user->declared_so_far();
        if (const auto tail = user->tail()) tail->wait();
        so_far.note_run();
    }
}

inline void Allocation::synchronize_declared() {
    if (!used_.load(std::memory_order_acquire)) return;
    if (portamem_forked() == 0) return synchronize_users();
    if (!has_run_declared()) {
        detail::raise(rt::Error_t::InitializationError, "fork",
                      "this memory can be read here if its work had run before the fork");
    }
}

// Waits for no lock, because a thread of the parent may have held it at the fork.
inline bool Allocation::has_run_declared() const {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || !borrowers_.empty()) return false;
    if (!(*stream_)->has_run(latest_use_here_.load(std::memory_order_relaxed))) return false;
    for (std::size_t i = 0; i < users_.size(); ++i) {
        if (!users_[i]->has_run(latest_uses_[i])) return false;
    }
    return true;
}

inline void Allocation::add_user(const std::shared_ptr<Stream>& stream, std::uint64_t number) {
    latest_uses_.reserve(users_.size() + 1);
    users_.push_back(stream);
    latest_uses_.push_back(number);
}

// Declares a use on a stream that is declared already.
inline void Allocation::declare_for(const std::shared_ptr<Stream>& user) {
    const std::uint64_t number = user->declare();
    if (user == *stream_) return note_use_here(number);
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find(users_.begin(), users_.end(), user);
    if (found != users_.end()) raise_to(latest_use(found), number);
}

inline detail::LightVector<std::shared_ptr<Stream>> Allocation::users() {
    std::lock_guard<std::mutex> lock(mutex_);
    return users_;
}

inline detail::LightVector<std::shared_ptr<Stream>> Allocation::all_users() {
    auto all = users();
    all.push_back(*stream_);
    return all;
}

// Returns an open stream of this device that stands for `stream`, which may have been closed with work still in it.
inline std::shared_ptr<Stream> Allocation::stand_in(Stream& stream) {
    auto stands_in = Stream::default_stream(stream.device());
    stands_in->wait(stream);
    return stands_in;
}

PORTAMEM_CLOSE
