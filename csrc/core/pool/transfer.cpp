// SPDX-License-Identifier: MIT
// core/pool/transfer.cpp: memory that moves, and calls that wait for it.
#include "transfer.hpp"

namespace portamem::pool {

thread_local Transfer* Transfer::innermost_ = nullptr;
thread_local TransferWait* TransferWait::innermost_ = nullptr;

Transfer::~Transfer() {
    if (is_under_way_) give_up();
}

void Transfer::begin(std::size_t nbytes) noexcept {
    nbytes_ = nbytes;
    is_under_way_ = true;
    outer_ = innermost_;
    innermost_ = this;
    all_.nbytes += nbytes;
    ++all_.under_way;
}

void Transfer::end(bool has_arrived) noexcept {
    if (!is_under_way_) return;
    is_under_way_ = false;
    innermost_ = outer_;
    all_.nbytes -= nbytes_;
    --all_.under_way;
    ++(has_arrived ? all_.arrived : all_.given_up);
    for (TransferWait* own = TransferWait::innermost_; own != nullptr; own = own->outer_) {
        if (&own->all_ == &all_) ++(has_arrived ? own->seen_ : own->seen_given_up_);
    }
    all_.ended.notify_all();
}

void Transfer::give_up() {
    const std::lock_guard<std::mutex> lock(all_.mutex);
    end(false);
}

TransferWait::TransferWait(Transfers& all) : all_(all), outer_(innermost_) {
    const std::lock_guard<std::mutex> lock(all.mutex);
    seen_ = all.arrived;
    seen_given_up_ = all.given_up;
    innermost_ = this;
}

bool TransferWait::has_arrived(std::chrono::steady_clock::time_point until, bool is_at_limit) {
    std::unique_lock<std::mutex> lock(all_.mutex);
    if (std::chrono::steady_clock::now() >= until) return false;
    bool waits = true;
    for (const Transfer* own = Transfer::innermost_; own != nullptr; own = own->outer_) {
        waits = waits && &own->all_ != &all_;
    }
    const auto has_come = [&] { return all_.arrived != seen_ || (is_at_limit && all_.given_up != seen_given_up_); };
    if (waits) all_.ended.wait_until(lock, until, [&] { return has_come() || all_.under_way == 0; });
    const bool has = has_come();
    seen_ = all_.arrived;
    seen_given_up_ = all_.given_up;
    return has;
}

}  // namespace portamem::pool
