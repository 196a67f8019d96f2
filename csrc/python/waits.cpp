// SPDX-License-Identifier: MIT
// python/waits.cpp: an exception of a Python program's signal handlers ends its waits.
//
// A runtime's call that blocks hears of no signal, and Python runs handlers on its first thread only, between two of
// its own instructions. So there portamem asks the runtime again and again, and lets handlers run in between.
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "callbacks.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

namespace {

using Clock = std::chrono::steady_clock;
using portamem::detail::Hearing;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr microseconds kSpin{100};     // a short wait ends as soon as it would without all this
constexpr microseconds kShortest{20};  // the shortest later pause; each is a small share of the wait so far
constexpr milliseconds kLongest{1};
constexpr int kShare = 32;
constexpr milliseconds kUnheard{20};  // the time between two looks for signals that have not ended a pause

[[noreturn]] void throw_set_error() {
    py::error_already_set raised;
    throw_raised(raised);
}

// Hears signals under a lock, where no code of the program's may run: only those that need none of it.
void hear_interrupt() {
    if (PyOS_InterruptOccurred() == 0) return;
    const py::module_ signals = py::module_::import("_signal");
    if (signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"))) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw_set_error();
    }
    PyErr_SetInterrupt();  // for later
}

void hear() {
    if (interpreter_is_going()) return;
    const WithGil gil;
    detail::stay_at_exit([] {
        if (portamem::detail::hearing() == Hearing::Leaving) {
            if (PyOS_InterruptOccurred() == 0) return;
            PyErr_SetInterrupt();  // for the program
            throw portamem::detail::WaitLeft();
        }
        if (portamem::detail::hearing() == Hearing::Interrupts) {
            hear_interrupt();
        } else if (PyErr_CheckSignals() != 0) {
            throw_set_error();
        }
    });
}

// Returns whether a signal has ended the pause.
bool pause_for(nanoseconds time) noexcept {
    const timespec request{0, static_cast<long>(time.count())};
    return nanosleep(&request, nullptr) != 0;
}

void wait(bool (*is_done)(void*), void* argument) {
    if (is_done(argument)) return;
    const auto begin = Clock::now();
    auto now = begin;
    while (now - begin < kSpin) {
        (void)sched_yield();  // gives the CPU to the work, where that runs on this machine
        if (is_done(argument)) return;
        now = Clock::now();
    }
    auto heard = begin;
    for (;;) {
        const auto share = std::chrono::duration_cast<nanoseconds>(now - begin) / kShare;
        const bool is_signal = pause_for(std::clamp<nanoseconds>(share, kShortest, kLongest));
        if (is_done(argument)) return;
        now = Clock::now();
        if (!is_signal && now - heard < kUnheard) continue;
        hear();
        heard = now;
    }
}

}  // namespace

void hear_signals_in_waits() { portamem::detail::embedder().wait = wait; }

void keep_interrupt() noexcept {
    try {
        throw;
    } catch (const RaisedInPython& raised) {
        const py::object error = held_object(raised.error);
        if (PyErr_GivenExceptionMatches(error.ptr(), PyExc_KeyboardInterrupt) != 0) PyErr_SetInterrupt();
    } catch (...) {
        return;  // not an exception of a signal
    }
}

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
