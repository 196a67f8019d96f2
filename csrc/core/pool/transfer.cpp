// SPDX-License-Identifier: MIT
// core/pool/transfer.cpp: chunks on their way, and who waits for them.
#include "transfer.hpp"

#include <mutex>

namespace portamem::pool {

thread_local Pool::Transfer* Pool::Transfer::innermost_ = nullptr;
thread_local Pool::TransferWait* Pool::TransferWait::innermost_ = nullptr;

Pool::Transfer::~Transfer() {
    if (is_under_way_) give_up();
}

void Pool::Transfer::begin(std::size_t nbytes) noexcept {
    nbytes_ = nbytes;
    is_under_way_ = true;
    outer_ = innermost_;
    innermost_ = this;
    pool_.transfers_.nbytes += nbytes;
    ++pool_.transfers_.under_way;
}

void Pool::Transfer::end(bool has_arrived) noexcept {
    if (!is_under_way_) return;
    is_under_way_ = false;
    innermost_ = outer_;
    pool_.transfers_.nbytes -= nbytes_;
    --pool_.transfers_.under_way;
    ++(has_arrived ? pool_.transfers_.arrived : pool_.transfers_.given_up);
    for (TransferWait* own = TransferWait::innermost_; own != nullptr; own = own->outer_) {
        if (&own->pool_ == &pool_) ++(has_arrived ? own->seen_ : own->seen_given_up_);
    }
    pool_.transfers_.ended.notify_all();
}

void Pool::Transfer::give_up() {
    const std::lock_guard<std::mutex> lock(pool_.heap_.mutex());
    end(false);
}

Pool::TransferWait::TransferWait(Pool& pool) : pool_(pool), outer_(innermost_) {
    const std::lock_guard<std::mutex> lock(pool.heap_.mutex());
    seen_ = pool.transfers_.arrived;
    seen_given_up_ = pool.transfers_.given_up;
    innermost_ = this;
}

bool Pool::TransferWait::has_arrived(std::chrono::steady_clock::time_point until, bool is_at_limit) {
    Transfers& transfers = pool_.transfers_;
    std::unique_lock<std::mutex> lock(pool_.heap_.mutex());
    if (std::chrono::steady_clock::now() >= until) return false;
    bool waits = true;
    for (const Transfer* own = Transfer::innermost_; own != nullptr; own = own->outer_)
        waits = waits && &own->pool_ != &pool_;
    const auto has_come = [&] {
        return transfers.arrived != seen_ || (is_at_limit && transfers.given_up != seen_given_up_);
    };
    if (waits) transfers.ended.wait_until(lock, until, [&] { return has_come() || transfers.under_way == 0; });
    const bool has = has_come();
    seen_ = transfers.arrived;
    seen_given_up_ = transfers.given_up;
    return has;
}

}  // namespace portamem::pool
