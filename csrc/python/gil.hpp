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

/// Returns whether the interpreter is going down, or gone.
inline bool interpreter_is_going() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
    return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

/// Returns whether this thread holds the GIL. PyGILState_Check would not do: it answers yes on every thread once any
/// code of the process has made a subinterpreter.
inline bool holds_gil() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != nullptr;
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet() != nullptr;
#else
    // This is the state of the thread that holds the GIL, whichever thread that is.
    PyThreadState* const holder = _PyThreadState_UncheckedGet();
    return holder != nullptr && holder == PyGILState_GetThisThreadState();
#endif
}

namespace detail {

[[noreturn]] inline void wait_for_the_end() noexcept {
    for (;;) pause();
}

// Runs a function that takes the GIL, or may give it up and take it again, as all Python code may. An unwind runs the
// destructors below this function first, without the GIL, so nothing below may own a Python object. Exceptions pass. A
// forced unwind has no object: the reference by which the handler has to name it is null, which UBSan would report.
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

// Is set while the order checker follows this module's calls, or a recorder notes where memory is allocated. The call
// site has to be read before the GIL is dropped. A thread that took the GIL back just for that could wait for ever,
// because calls are made under locks that other threads want with the GIL held.
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

// Returns whether Python runs its signal handlers on this thread: only on its first one, which is the process's as a
// rule. On other threads waits are plain ones.
inline bool runs_signal_handlers() noexcept {
    static thread_local const bool is_first = syscall(SYS_gettid) == getpid();
    return is_first;
}

}  // namespace detail

/// Returns that hearing on a thread that runs signal handlers, and Nothing elsewhere.
inline portamem::detail::Hearing hearing_in_calls(portamem::detail::Hearing hearing) noexcept {
    return detail::runs_signal_handlers() ? hearing : portamem::detail::Hearing::Nothing;
}

/// Drops the GIL for its scope, around every call that may block. An exception of the program's signal handlers ends a
/// wait for work in it (waits.cpp).
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

/// Puts this thread's pending exception aside for its scope. Objects that are dropped as Python unwinds call into this
/// module, and Python code that runs with an exception set goes wrong in any way. It needs the GIL at both ends. An
/// exception that the scope itself leaves set has no caller to reach, so sys.unraisablehook is told.
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

/// Takes the GIL for its scope, on any thread, with no exception set. It is the way from C++ to Python. It must not be
/// used once interpreter_is_going().
class WithGil {
  private:
    detail::HoldsGil held_;
    PendingErrorKept pending_;  // given back first
};

}  // namespace portamem::python
