// SPDX-License-Identifier: MIT
// core/pool/move.cpp: chunks on their way, and who waits for them.
#include "move.hpp"

#include <mutex>

namespace portamem::pool {

thread_local Pool::Move* Pool::Move::innermost_ = nullptr;
thread_local Pool::Awaited* Pool::Awaited::innermost_ = nullptr;

Pool::Move::~Move() {
    if (is_under_way_) give_up();
}

void Pool::Move::begin(std::size_t nbytes) noexcept {
    nbytes_ = nbytes;
    is_under_way_ = true;
    outer_ = innermost_;
    innermost_ = this;
    pool_.moves_.nbytes += nbytes;
    ++pool_.moves_.under_way;
}

void Pool::Move::end(bool has_arrived) noexcept {
    if (!is_under_way_) return;
    is_under_way_ = false;
    innermost_ = outer_;
    pool_.moves_.nbytes -= nbytes_;
    --pool_.moves_.under_way;
    ++(has_arrived ? pool_.moves_.arrived : pool_.moves_.given_up);
    for (Awaited* own = Awaited::innermost_; own != nullptr; own = own->outer_) {
        if (&own->pool_ == &pool_) ++(has_arrived ? own->seen_ : own->seen_given_up_);
    }
    pool_.moves_.ended.notify_all();
}

void Pool::Move::give_up() {
    const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
    end(false);
}

Pool::Awaited::Awaited(Pool& pool) : pool_(pool), outer_(innermost_) {
    const std::lock_guard<std::mutex> lock(pool.heap_.mutex());
    seen_ = pool.moves_.arrived;
    seen_given_up_ = pool.moves_.given_up;
    innermost_ = this;
}

bool Pool::Awaited::has_arrived(std::chrono::steady_clock::time_point until, bool is_at_limit) {
    Moves& moves = pool_.moves_;
    std::unique_lock<std::mutex> lock(pool_.heap_.mutex());
    if (std::chrono::steady_clock::now() >= until) return false;
    bool waits = true;
    for (const Move* own = Move::innermost_; own != nullptr; own = own->outer_) waits = waits && &own->pool_ != &pool_;
    const auto has_come = [&] { return moves.arrived != seen_ || (is_at_limit && moves.given_up != seen_given_up_); };
    if (waits) moves.ended.wait_until(lock, until, [&] { return has_come() || moves.under_way == 0; });
    const bool has = has_come();
    seen_ = moves.arrived;
    seen_given_up_ = moves.given_up;
    return has;
}

}  // namespace portamem::pool
