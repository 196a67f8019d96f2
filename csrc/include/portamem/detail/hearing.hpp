// SPDX-License-Identifier: MIT
// portamem/detail/hearing.hpp: the exceptions that end a thread's waits early, such as signals of an embedding
// language.
#pragma once

#include <algorithm>
#include <exception>
#include <type_traits>

#include "portamem/detail/embedder.hpp"

PORTAMEM_OPEN

namespace detail {

/// Says which exceptions end the waits of this thread early.
enum class Hearing : unsigned char {
    Nothing,     ///< on most threads, and wherever portamem is embedded in no other language
    Dropping,    ///< nothing either, in destructors
    AtOnce,      ///< every wait ends before it begins: another thread is kept waiting, and memory can go back later
    Leaving,     ///< a signal that asks the program to end, in destructors of memory, which can go back later
    Interrupts,  ///< a signal that asks the program to end and runs none of its own code, under a lock
    Everything,  ///< every exception that the program's signal handlers raise
};

inline Hearing& hearing() noexcept {
    static thread_local Hearing now = Hearing::Nothing;
    return now;
}

/// Ends a wait whose caller comes back later.
class WaitLeft : public std::exception {
  public:
    const char* what() const noexcept override { return "the wait is left"; }
};

/// Sets another hearing for its scope.
class HearingScope {
  public:
    explicit HearingScope(Hearing inside) noexcept : before_(hearing()) { hearing() = inside; }
    ~HearingScope() { hearing() = before_; }
    HearingScope(const HearingScope&) = delete;
    HearingScope& operator=(const HearingScope&) = delete;

  private:
    const Hearing before_;
};

/// Serves a scope in which the caller holds a lock. The program's own code, which may want that lock too, does not run
/// inside.
class HearingUnderLock : public HearingScope {
  public:
    HearingUnderLock() noexcept
        : HearingScope(hearing() < Hearing::Leaving ? Hearing::Nothing : std::min(hearing(), Hearing::Interrupts)) {}
};

/// Stands before a call that blocks until `is_done()`, because such a call hears nothing. What it throws leaves the
/// work as it is. Returns false where there is nothing to hear and the call has to wait, and true once the call has
/// nothing to wait for.
template <class IsDone>
bool hear_until(IsDone&& is_done) {
    if (__builtin_expect(hearing() <= Hearing::Dropping, 1)) return false;
    if (hearing() == Hearing::AtOnce) {
        if (is_done()) return true;
        throw WaitLeft();
    }
    const auto hook = embedder().wait.load(std::memory_order_relaxed);
    if (hook == nullptr) return false;
    hook([](void* argument) -> bool { return (*static_cast<std::remove_reference_t<IsDone>*>(argument))(); }, &is_done);
    return true;
}

}  // namespace detail

PORTAMEM_CLOSE
