// SPDX-License-Identifier: MIT
// host/entry.cpp: admission of calls and the last-error slot.
#include "entry.hpp"

#include <cstring>
#include <new>

#include "portamem/version.h"

namespace portamem::host {
namespace {

void fail_if_told(State& state, const char* call) {
    const std::lock_guard<std::mutex> lock(state.mutex);
    FailRule& rule = state.fail;
    const bool is_knob = std::strncmp(call, "Knob", 4) == 0;  // always admitted, so that the program can undo the rule
    if (is_knob || rule.nth == 0 || !(rule.call.empty() || rule.call == call) || --rule.nth != 0) return;
    state.fail_armed.store(false, std::memory_order_relaxed);
    refuse(static_cast<pmhError_t>(rule.code), "%s was told to fail by a knob", call);
}

}  // namespace

ThreadState& this_thread() {
    static thread_local ThreadState thread;
    return thread;
}

State& admit(const char* call) {
    // The fork check comes first: another thread of the parent may have held the lock or been making the state, and the
    // child would wait forever.
    if (portamem_forked() != 0) refuse(pmhErrorInitializationError, "the host runtime does not survive a fork");
    if (this_thread().in_host_function)
        refuse(pmhErrorNotPermitted, "%s was called in a host function or a kernel that a stream runs", call);
    State& state = host::state();
    if (!state.config.error.empty()) refuse(pmhErrorInitializationError, "%s", state.config.error.c_str());
    if (state.devices.empty()) refuse(pmhErrorNoDevice, "PORTAMEM_HOST_DEVICES is 0");
    if (state.fail_armed.load(std::memory_order_relaxed)) fail_if_told(state, call);
    return state;
}

pmhError_t record_failure() noexcept {
    ThreadState& thread = this_thread();
    try {
        throw;
    } catch (const Refusal& refusal) {
        thread.last_error = refusal.code;
        std::memcpy(thread.detail, refusal.detail, sizeof thread.detail);
    } catch (const std::bad_alloc&) {
        thread.last_error = pmhErrorOutOfMemory;
        (void)std::snprintf(thread.detail, sizeof thread.detail, "the process itself is out of memory");
    } catch (const std::exception& error) {
        thread.last_error = pmhErrorUnknown;
        (void)std::snprintf(thread.detail, sizeof thread.detail, "%s", error.what());
    }
    thread.detail_of = thread.last_error;
    return thread.last_error;
}

Device& device_of(State& state, int ordinal) {
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= state.devices.size())
        refuse(pmhErrorInvalidDevice, "there is no device %d; there are %zu", ordinal, state.devices.size());
    return *state.devices[static_cast<std::size_t>(ordinal)];
}

}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhRuntimeGetVersion(int* version) {
    if (portamem_forked() != 0) return pmhErrorInitializationError;
    if (version == nullptr) return pmhErrorInvalidValue;
    *version = 1000 * PORTAMEM_VERSION_MAJOR + 10 * PORTAMEM_VERSION_MINOR + PORTAMEM_VERSION_PATCH;
    return pmhSuccess;
}

pmhError_t pmhGetLastError(void) {
    if (portamem_forked() != 0) return pmhErrorInitializationError;
    return std::exchange(this_thread().last_error, pmhSuccess);
}

pmhError_t pmhPeekAtLastError(void) {
    if (portamem_forked() != 0) return pmhErrorInitializationError;
    return this_thread().last_error;
}

const char* pmhGetLastErrorDetail(void) { return this_thread().detail; }

const char* pmhGetErrorDetail(pmhError_t error) {
    const ThreadState& thread = this_thread();
    return thread.detail_of == error && thread.detail[0] != '\0' ? thread.detail : pmhGetErrorString(error);
}
