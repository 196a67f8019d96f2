// SPDX-License-Identifier: MIT
// portamem/device_wait.hpp: waiting for a whole device while the caller hears signals.
//
// No runtime can be asked whether a device is idle. So another thread makes the call that blocks, and the caller asks
// that thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "portamem/capture.hpp"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/detail/thread.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps threads that wait for devices: one per module in most programs, and more where a wait that its
/// caller has left goes on. The threads are detached and leaked, because a process may exit while they wait.
class DeviceWaiters {
  public:
    /// Holds what the runtime answered, once it has.
    class Answer {
      public:
        bool is_there() const noexcept { return is_there_.load(std::memory_order_acquire); }
        /// Throws Error where the runtime refused. The caller calls it only once the answer is there.
        void check() const {
            if (refusal_) std::rethrow_exception(refusal_);
        }

      private:
        friend class DeviceWaiters;
        std::exception_ptr refusal_;  // made on the waiting thread, with the runtime's text
        std::atomic<bool> is_there_{false};
    };

    static DeviceWaiters& instance() {
        static auto* leaked = new DeviceWaiters;
        return *leaked;
    }

    /// Begins a wait for the work that the device has now. Throws std::system_error where the system has no thread.
    std::shared_ptr<Answer> begin(int device) {
        auto answer = shared<Answer>();
        const std::lock_guard<std::mutex> lock(mutex_);
        if (jobs_.size() >= idle_) {
            start_thread(
                [](void* self) -> void* {
                    static_cast<DeviceWaiters*>(self)->run();
                    return nullptr;
                },
                this);
        }
        jobs_.push_back({device, answer});
        wake_.notify_one();
        return answer;
    }

  private:
    struct Job {
        int device;
        std::shared_ptr<Answer> answer;
    };

    void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            ++idle_;
            wake_.wait(lock, [this] { return !jobs_.empty(); });
            --idle_;
            const Job job = std::move(jobs_.front());
            jobs_.erase(jobs_.begin());
            lock.unlock();
            try {
                const RelaxedCapture beside(job.device);
                check(rt::DeviceSynchronize(), "DeviceSynchronize");
            } catch (...) {
                job.answer->refusal_ = std::current_exception();
            }
            job.answer->is_there_.store(true, std::memory_order_release);
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    LightVector<Job> jobs_;
    std::size_t idle_ = 0;
};

/// Does hear_until for a device, which is current and not captured. The work that it had at the time of the call has
/// run then.
inline void hear_until_idle(int device) {
    if (hearing() <= Hearing::AtOnce) return;
    std::shared_ptr<DeviceWaiters::Answer> answer;
    try {
        answer = DeviceWaiters::instance().begin(device);
    } catch (const std::system_error&) {
        return;
    }
    hear_until([&answer] { return answer->is_there(); });
    answer->check();
}

}  // namespace detail

PORTAMEM_CLOSE
