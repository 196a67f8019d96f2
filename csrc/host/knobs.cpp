// SPDX-License-Identifier: MIT
// host/knobs.cpp: the pretended machine changed while the process runs.
#include "entry.hpp"

using namespace portamem::host;

pmhError_t pmhKnobSetCapacity(int device, size_t bytes) {
    return enter("KnobSetCapacity", [&](State& state, Hold&) { device_of(state, device).capacity = bytes; });
}

pmhError_t pmhKnobSetCopyDelay(unsigned microseconds) {
    return enter("KnobSetCopyDelay", [&](State& state, Hold&) { state.copy_delay = microseconds; });
}

pmhError_t pmhKnobFailCall(const char* call, unsigned nth, int code) {
    return enter("KnobFailCall", [&](State& state, Hold&) {
        require(nth == 0 || is_failure_code(code), "a failing call needs a code from 1 to 999");
        state.fail = {call == nullptr ? "" : call, nth, code};
        state.fail_armed.store(nth != 0, std::memory_order_relaxed);
        forget_numbers_of_streams();
    });
}

pmhError_t pmhKnobReset(void) {
    return enter("KnobReset", [&](State& state, Hold&) { state.reset_knobs(); });
}
