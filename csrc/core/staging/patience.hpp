// SPDX-License-Identifier: MIT
// core/staging/patience.hpp: how a thread waits for what comes within microseconds, or later.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace portamem::staging {

/// Waits a little longer each time: first it lets other threads run, then it sleeps.
class Patience {
  public:
    void renew() noexcept { turns_ = 0; }
    void wait() noexcept {
        if (++turns_ < kTurns) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(kNap);
        }
    }

  private:
    static constexpr int kTurns = 2000;  // about a millisecond
    static constexpr std::chrono::microseconds kNap{50};

    int turns_ = 0;
};

}  // namespace portamem::staging
