// SPDX-License-Identifier: MIT
// host/entry.hpp: the entry of the runtime: the checks that come before every call, and the record of its result.
#pragma once

#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/order/call.hpp"
#include "refusal.hpp"
#include "state.hpp"

namespace portamem::host {

/// The runtime's state of a thread. It is trivially destructible, because calls may come while the thread's own objects
/// are destroyed.
struct ThreadState {
    int device = 0;
    bool in_host_function = false;
    int capture_mode = pmhStreamCaptureModeGlobal;
    pmhError_t last_error = pmhSuccess;
    pmhError_t detail_of = pmhSuccess;  ///< the failure that `detail` describes; reading last_error resets it
    char detail[kDetail] = {};
};

ThreadState& this_thread();

/// The runtime's lock, and the objects that a call has released under it. Mappings go back to the system after
/// unlocking.
class Hold {
  public:
    explicit Hold(std::mutex& mutex) : lock(mutex) {}

    /// Makes room for one object, so that its release then needs no host memory.
    void make_room() { released_.reserve(released_.size() + 1); }
    void release(std::shared_ptr<const void> object) { released_.push_back(std::move(object)); }

  private:
    std::vector<std::shared_ptr<const void>> released_;

  public:
    std::unique_lock<std::mutex> lock;  ///< declared last: unlocked before the released objects are destroyed
};

/// Refuses in a forked child, in a host function, on a machine that cannot be, and where a knob says so.
State& admit(const char* call);

/// Stores the exception in flight as this thread's last error.
pmhError_t record_failure() noexcept;

/// Runs a call's body under the lock. `call` is its name without the prefix.
template <class Body>
pmhError_t enter(const char* call, Body&& body) noexcept {
    try {
        State& state = admit(call);
        const order::Call noted(call);  // before the lock: naming a call's place may run the program's code
        Hold hold(state.mutex);
        if constexpr (std::is_void_v<std::invoke_result_t<Body, State&, Hold&>>) {
            body(state, hold);
            return pmhSuccess;
        } else {
            return body(state, hold);
        }
    } catch (...) {
        return record_failure();
    }
}

/// Runs a call that touches only the runtime's state of the calling thread, without the lock.
template <class Body>
pmhError_t enter_unlocked(const char* call, Body&& body) noexcept {
    try {
        (void)admit(call);
        const order::Call noted(call);
        body();
        return pmhSuccess;
    } catch (...) {
        return record_failure();
    }
}

/// Returns the calling thread's current device.
inline Device& current_device(State& state) { return *state.devices[static_cast<std::size_t>(this_thread().device)]; }

/// Returns the device of an ordinal. InvalidDevice for one out of range.
Device& device_of(State& state, int ordinal);

}  // namespace portamem::host
