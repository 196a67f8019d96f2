// SPDX-License-Identifier: MIT
// python/gil.hpp: letting go of the GIL and taking it, also while the interpreter goes down.
//
// Up to Python 3.13 a thread that asks for the GIL of an interpreter that is going down is ended by pthread_exit. That
// would unwind through destructors and end the process. Here such a thread waits for the end instead, as it does from
// Python 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <atomic>

#include <portamem/record_api.h>

namespace portamem::python {

/// Whether the interpreter is going down, or gone.
inline bool interpreter_is_going() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
    return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
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

/// Without the GIL for its scope: around everything that may block.
class WithoutGil {
  public:
    WithoutGil() noexcept : state_(detail::leave_python()) {}
    ~WithoutGil() {
        detail::stay_at_exit([this] { PyEval_RestoreThread(state_); });
        if (detail::follows_sites()) detail::forget_site();
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

  private:
    PyThreadState* state_;
};

/// With the GIL for its scope, on any thread. Not once interpreter_is_going().
class WithGil {
  public:
    WithGil() noexcept : state_(detail::stay_at_exit([] { return PyGILState_Ensure(); })) {}
    ~WithGil() {
        detail::stay_at_exit([this] { PyGILState_Release(state_); });
    }
    WithGil(const WithGil&) = delete;
    WithGil& operator=(const WithGil&) = delete;

  private:
    PyGILState_STATE state_;
};

}  // namespace portamem::python
