// SPDX-License-Identifier: MIT
// portamem/detail/chore.hpp: a function that says whether it is done, of which each costs little to compile.
#pragma once

#include <utility>

#include "portamem/detail/owned.hpp"

PORTAMEM_OPEN
namespace detail {

/// Holds a function that returns true when it has nothing left to do, and that must not throw. Unlike std::function it
/// cannot be copied, so what the function captures need not be copied either.
class Chore {
  public:
    template <class Function>
    Chore(Function function) : held_(new Holder<Function>(std::move(function))) {}

    bool operator()() const { return held_->run(); }

  private:
    struct Held {
        Held() = default;
        virtual ~Held() = default;
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;
        virtual bool run() = 0;
    };
    template <class Function>
    struct Holder final : Held {
        explicit Holder(Function&& held) : function(std::move(held)) {}
        bool run() override { return function(); }
        Function function;
    };

    Owned<Held> held_;
};

}  // namespace detail
PORTAMEM_CLOSE
