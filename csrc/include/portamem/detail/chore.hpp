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

/// Holds chores in the order in which they came. Only add() needs memory.
class Chores {
  public:
    Chores() = default;
    Chores(Chores&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
    ~Chores() {
        while (first_ != nullptr) delete std::exchange(first_, first_->next);
    }
    Chores(const Chores&) = delete;
    Chores& operator=(const Chores&) = delete;

    bool empty() const noexcept { return first_ == nullptr; }

    void add(Chore chore) {
        auto* const entry = new Entry{std::move(chore), nullptr};
        append(entry, entry);
    }
    /// Adds what the other holds.
    void join(Chores&& more) noexcept {
        if (!more.empty()) append(std::exchange(more.first_, nullptr), std::exchange(more.last_, nullptr));
    }

    /// Runs every chore once, and lets go of those that are done. Returns true if one was.
    bool run() {
        bool is_one_done = false;
        last_ = nullptr;
        for (Entry** link = &first_; *link != nullptr;) {
            Entry* const entry = *link;
            if (!entry->chore()) {
                last_ = entry;
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            delete entry;
            is_one_done = true;
        }
        return is_one_done;
    }

  private:
    struct Entry {
        Chore chore;
        Entry* next;
    };

    void append(Entry* first, Entry* last) noexcept {
        (first_ == nullptr ? first_ : last_->next) = first;
        last_ = last;
    }

    Entry* first_ = nullptr;
    Entry* last_ = nullptr;
};

}  // namespace detail
PORTAMEM_CLOSE
