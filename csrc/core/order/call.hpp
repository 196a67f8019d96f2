// SPDX-License-Identifier: MIT
// core/order/call.hpp: whether order is being checked, and where in the program a runtime call was made.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "portamem/abi/order_api.h"

namespace portamem::order {

/// A place in the program, by number; 0 is one that nobody knows.
using SiteId = std::uint32_t;

namespace detail {

extern std::atomic<bool> active;  // of this library alone: reached without a table

}  // namespace detail

inline bool is_on() noexcept { return __builtin_expect(detail::active.load(std::memory_order_relaxed), false); }

/// Opens the session that PORTAMEM_CHECK=1 asks for, once. Whether it asks.
bool start_if_asked() noexcept;

/// Stands at the entry of every runtime call, before any lock is taken: notes the call's place in the program, and
/// prints what was found once the locks are released.
class Call {
  public:
    explicit Call(const char* name) noexcept {
        if (is_on()) begin(name);
    }
    ~Call() {
        if (noted_) end();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Of the call that this thread is in.
    static SiteId site() noexcept;
    static const char* name() noexcept;

    /// Whether this thread asks for progress on portamem's own behalf, which tells the program nothing.
    static bool is_own_query() noexcept;
    static void own_queries(int change) noexcept;
    /// What portamem's own questions are about, until they are over.
    struct About {
        const portamem_order_range* ranges = nullptr;
        std::size_t count = 0;
    };
    static void own_queries_about(const About& about) noexcept;
    static About asked_about() noexcept;

  private:
    [[gnu::cold]] void begin(const char* name) noexcept;
    [[gnu::cold]] void end() noexcept;

    bool noted_ = false;
};

/// Writes the place in a language's program that the calling thread is at, as "file:line" and a null byte; false where
/// the thread runs no such program. Called with no lock of portamem's held. Must not block.
using SiteProvider = int (*)(char* text, std::size_t size);

void set_site_provider(SiteProvider provider) noexcept;

/// The place in the program that called into portamem, on this thread; 0 where the host has no memory for it.
SiteId here() noexcept;

/// The number of a place: of the one that a text names, or, for null, of the calling thread's innermost functions.
SiteId number_site(const char* text);

/// The place as text: what the provider wrote, or symbol and offset of the native caller.
std::string describe(SiteId site);

}  // namespace portamem::order
