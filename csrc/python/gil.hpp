// SPDX-License-Identifier: MIT
// python/gil.hpp: letting go of the GIL and taking it, also while the interpreter goes down.
//
// Up to Python 3.13 a thread that asks for the GIL of an interpreter that is going down is ended by pthread_exit. That
// would unwind through destructors and end the process. Here such a thread waits for the end instead, as it does from
// Python 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include <portamem/abi/record_api.h>
#include <portamem/error.hpp>

namespace portamem::python {

/// Whether the interpreter is going down, or gone.
inline bool interpreter_is_going() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
    return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

/// Whether this thread holds the GIL. Not PyGILState_Check, which answers yes on every thread once the process has made a
/// subinterpreter of anybody's.
inline bool holds_gil() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != nullptr;
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet() != nullptr;
#else
    // The state of the thread that holds it, whichever that is.
    PyThreadState* const holder = _PyThreadState_UncheckedGet();
    return holder != nullptr && holder == PyGILState_GetThisThreadState();
#endif
}

namespace detail {

[[noreturn]] inline void wait_for_the_end() noexcept {
    for (;;) pause();
}

// Calls what takes the GIL, or may give it up and take it again, as all Python code may. An unwind runs the destructors
// below this function first, without the GIL: nothing below should own a Python object. What is thrown passes. A forced
// unwind has no object: the reference that the handler has to name it by is null, which UBSan would report.
template <class Function>
__attribute__((no_sanitize("null"))) auto stay_at_exit(Function&& function) {
    try {
        return function();
    } catch (abi::__forced_unwind&) {
        wait_for_the_end();
    }
}

}  // namespace detail

namespace detail {

// While the order checker follows this module's calls, or a recorder notes where memory is allocated: where the program
// is has to be read before the GIL is dropped.
// Who took it back just for that could wait for ever: calls are made under locks that others want with the GIL held.
inline std::atomic<bool> sites_wanted{false};

void remember_site() noexcept;  // order_check.cpp
void forget_site() noexcept;

inline bool follows_sites() noexcept {
    return sites_wanted.load(std::memory_order_relaxed) ||
           __atomic_load_n(&portamem_record_sites, __ATOMIC_RELAXED) != 0;
}

inline PyThreadState* leave_python() noexcept {
    if (follows_sites()) remember_site();
    return PyEval_SaveThread();
}

}  // namespace detail

namespace detail {

// Whether Python runs its signal handlers on this thread: only its first one, which is the process's as a rule. Where it
// is not, waits are plain ones.
inline bool runs_signal_handlers() noexcept {
    static thread_local const bool is_first = syscall(SYS_gettid) == getpid();
    return is_first;
}

}  // namespace detail

/// That hearing, on a thread that runs signal handlers.
inline portamem::detail::Hearing hearing_in_calls(portamem::detail::Hearing hearing) noexcept {
    return detail::runs_signal_handlers() ? hearing : portamem::detail::Hearing::Nothing;
}

/// Without the GIL for its scope: around everything that may block. What waits for work in it is ended by what a signal
/// handler of the program's raises (waits.cpp).
class WithoutGil {
  public:
    WithoutGil() noexcept : WithoutGil(hearing_in_calls(portamem::detail::Hearing::Everything)) {}
    explicit WithoutGil(portamem::detail::Hearing hearing) noexcept
        : hearing_(hearing), state_(detail::leave_python()) {}
    ~WithoutGil() {
        detail::stay_at_exit([this] { PyEval_RestoreThread(state_); });
        if (detail::follows_sites()) detail::forget_site();
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

  private:
    const portamem::detail::HearingScope hearing_;
    PyThreadState* state_;
};

/// Puts the exception that this thread has on its way aside for its scope: what is dropped as Python unwinds calls into
/// this module, and Python code that runs with an exception set goes wrong in any way. Needs the GIL, at both ends. What
/// the scope itself leaves set has no caller to reach: sys.unraisablehook is told.
class PendingErrorKept {
  public:
#if PY_VERSION_HEX >= 0x030C0000
    PendingErrorKept() noexcept : error_(PyErr_Occurred() == nullptr ? nullptr : PyErr_GetRaisedException()) {}
    ~PendingErrorKept() {
        if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
        if (error_ != nullptr) PyErr_SetRaisedException(error_);
    }
#else
    PendingErrorKept() noexcept {
        if (PyErr_Occurred() != nullptr) PyErr_Fetch(&type_, &error_, &trace_);
    }
    ~PendingErrorKept() {
        if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
        if (type_ != nullptr) PyErr_Restore(type_, error_, trace_);
    }
#endif
    PendingErrorKept(const PendingErrorKept&) = delete;
    PendingErrorKept& operator=(const PendingErrorKept&) = delete;

  private:
#if PY_VERSION_HEX < 0x030C0000
    PyObject* type_ = nullptr;
    PyObject* trace_ = nullptr;
#endif
    PyObject* error_ = nullptr;
};

namespace detail {

class HoldsGil {
  public:
    HoldsGil() noexcept : state_(stay_at_exit([] { return PyGILState_Ensure(); })) {}
    ~HoldsGil() {
        stay_at_exit([this] { PyGILState_Release(state_); });
    }
    HoldsGil(const HoldsGil&) = delete;
    HoldsGil& operator=(const HoldsGil&) = delete;

  private:
    PyGILState_STATE state_;
};

}  // namespace detail

/// With the GIL for its scope, on any thread, and with no exception set: the way from C++ to Python. Not once
/// interpreter_is_going().
class WithGil {
  private:
    detail::HoldsGil held_;
    PendingErrorKept pending_;  // given back first
};

}  // namespace portamem::python
