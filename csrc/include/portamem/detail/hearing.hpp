// SPDX-License-Identifier: MIT
// portamem/detail/hearing.hpp: which exceptions end a thread's waits early: signals of an embedding language.
#pragma once

#include <algorithm>
#include <exception>
#include <type_traits>

#include "portamem/detail/embedder.hpp"

PORTAMEM_OPEN

namespace detail {

/// What ends the waits of this thread early, by an exception.
enum class Hearing : unsigned char {
    Nothing,     ///< on most threads, and wherever portamem is embedded in no other language
    Dropping,    ///< nothing either: in destructors
    AtOnce,      ///< where others are kept waiting, and memory can go back later: a wait ends before it begins
    Leaving,     ///< in destructors of memory, which can go back later: what asks the program to end
    Interrupts,  ///< under a lock: what asks the program to end, if none of its own code has to run for that
    Everything,  ///< what the program's signal handlers raise
};

inline Hearing& hearing() noexcept {
    static thread_local Hearing now = Hearing::Nothing;
    return now;
}

/// A wait that was left, by a caller who comes back later.
class WaitLeft : public std::exception {
  public:
    const char* what() const noexcept override { return "the wait is left"; }
};

/// Another hearing for its scope.
class HearingScope {
  public:
    explicit HearingScope(Hearing inside) noexcept : before_(hearing()) { hearing() = inside; }
    ~HearingScope() { hearing() = before_; }
    HearingScope(const HearingScope&) = delete;
    HearingScope& operator=(const HearingScope&) = delete;

  private:
    const Hearing before_;
};

/// For a scope in which the caller holds a lock while others wait: the program's own code, which may want that lock as
/// well, does not run.
class HearingUnderLock : public HearingScope {
  public:
    HearingUnderLock() noexcept
        : HearingScope(hearing() < Hearing::Leaving ? Hearing::Nothing : std::min(hearing(), Hearing::Interrupts)) {}
};

/// Stands before a call that blocks until `is_done()`: in such a call nothing is heard. What it throws leaves the work
/// as it is. False where there is nothing to hear, and the call has to wait; true once it has nothing to wait for.
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
