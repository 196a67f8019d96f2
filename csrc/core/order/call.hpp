// SPDX-License-Identifier: MIT
// core/order/call.hpp: whether order is being checked, and where in the program a runtime call was made.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "portamem/abi/order_api.h"

namespace portamem::order {

/// The number of a place in the program; 0 is an unknown place.
using SiteId = std::uint32_t;

namespace detail {

extern std::atomic<bool> active;  // this library's own, so that it is read without a table

}  // namespace detail

inline bool is_on() noexcept { return __builtin_expect(detail::active.load(std::memory_order_relaxed), false); }

/// Opens the session that PORTAMEM_CHECK=1 asks for, once. Returns whether it is asked for.
bool start_if_asked() noexcept;

/// Stands at the entry of every runtime call, before any lock is taken. It notes the call's place in the program, and
/// prints findings once the locks are released.
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

    /// These return the place and the name of the call that this thread is in.
    static SiteId site() noexcept;
    static const char* name() noexcept;

    /// Whether this thread asks for progress on portamem's own behalf. The answer tells the program nothing.
    static bool is_own_query() noexcept;
    static void own_queries(int change) noexcept;
    /// The memory that portamem's own questions are about, until they are over.
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

/// Writes the place of the calling thread in a program of another language, as "file:line" and a null byte; false where
/// the thread runs no such program. portamem calls it with none of its locks held. It must not block.
using SiteProvider = int (*)(char* text, std::size_t size);

void set_site_provider(SiteProvider provider) noexcept;

/// Returns the place in the program from which this thread called into portamem; 0 where the host has no memory for it.
SiteId here() noexcept;

/// Returns the number of the place that a text names or, for null, of the calling thread's innermost functions.
SiteId number_site(const char* text);

/// Returns the place as text: the provider's, or symbol and offset of the native caller.
std::string describe(SiteId site);

}  // namespace portamem::order
