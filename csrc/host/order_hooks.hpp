// SPDX-License-Identifier: MIT
// host/order_hooks.hpp: the runtime's reports to the order checker. While it is off, each costs a load and a branch.
//
// A call reports under the runtime's lock, after it has passed its checks. Operations that a capture takes are not
// reported: they run as a graph, if ever. Host functions and kernels are operations that touch no known memory.
#pragma once

#include "../core/order/checker.hpp"
#include "copy.hpp"
#include "stream.hpp"

namespace portamem::host {

namespace order_hooks {

order::StreamName name_of(Stream& stream);
order::Shape shape_of(const Side& side, const Box& box);
inline order::Checker& checker() { return order::Checker::instance(); }
order::Range range_of(const void* ptr, std::size_t size);
[[gnu::cold]] void begin_life(const void* ptr, std::size_t size, Stream* stream);
[[gnu::cold]] void end_life(const void* ptr, std::size_t size, Stream* stream);
[[gnu::cold]] void access(order::Kind kind, const Side& side, const Box& box, Stream& stream);
[[gnu::cold]] void stray(const void* ptr, std::size_t size, bool is_unused, Stream& stream);

}  // namespace order_hooks

// ---- order ----

inline void note_operation(Stream& stream) {
    if (order::is_on()) order_hooks::checker().operation(order_hooks::name_of(stream), stream.order);
}

/// Orders the stream behind all that a mark made now would come after.
inline void note_catch_up(Stream& stream) {
    if (order::is_on()) order_hooks::checker().catch_up(order_hooks::name_of(stream), stream.order);
}

inline order::Mark end_of(Stream& stream) {
    return order::is_on() ? order_hooks::checker().mark(order_hooks::name_of(stream), stream.order) : order::Mark{};
}

/// Keeps end_of() for later. A mark that was made while the checker was off belongs to no session, and means nothing.
inline void note_mark(order::Mark& mark, Stream& stream) {
    if (order::is_on()) mark = end_of(stream);
}

/// Returns the mark that the host has seen reached once it has waited for the stream.
inline order::Mark end_for_host(Stream& stream) {
    return order::is_on() ? order_hooks::checker().mark_for_host(order_hooks::name_of(stream), stream.order)
                          : order::Mark{};
}

/// Returns a mark behind all work of a device, or for -1 of every device.
inline order::Mark end_of_device(int device) {
    return order::is_on() ? order_hooks::checker().mark_of_device(device) : order::Mark{};
}

inline void note_wait(Stream& stream, const order::Mark& mark) {
    if (order::is_on()) order_hooks::checker().wait(order_hooks::name_of(stream), stream.order, mark);
}

/// Reports that the host has waited for a mark, or was told that it is reached. A question of portamem's own tells the
/// program nothing: it only settles the memory that it is about.
inline void note_reached(const order::Mark& mark) {
    if (!order::is_on()) return;
    if (!order::Call::is_own_query()) return order_hooks::checker().host_waited(mark);
    const auto [ranges, count] = order::Call::asked_about();
    for (std::size_t i = 0; i < count; ++i) {
        order_hooks::checker().settle(order_hooks::range_of(ranges[i].ptr, ranges[i].nbytes), mark);
    }
}

// ---- memory ----

/// Reports new memory: from a stream's operation on or, with null, at once for all streams.
inline void note_new(const void* ptr, std::size_t size, Stream* stream = nullptr) {
    if (order::is_on()) order_hooks::begin_life(ptr, size, stream);
}

inline void note_free(const void* ptr, std::size_t size, Stream* stream = nullptr) {
    if (order::is_on()) order_hooks::end_life(ptr, size, stream);
}

/// Reports addresses that are reserved anew: the checker forgets memory that was freed there.
inline void note_reserved(const void* ptr, std::size_t size) {
    if (order::is_on()) order_hooks::checker().forget(order_hooks::range_of(ptr, size));
}

/// Reports memory that goes after a wait for everything.
inline void note_gone(const void* ptr, std::size_t size) {
    if (order::is_on()) order_hooks::checker().end_life_waited(order_hooks::range_of(ptr, size));
}

/// These report that the stream's latest operation reads or writes memory that the runtime knows.
inline void note_read(const Side& side, const Box& box, bool is_known, Stream& stream) {
    if (order::is_on() && is_known) order_hooks::access(order::Kind::Read, side, box, stream);
}

inline void note_write(const Side& side, const Box& box, bool is_known, Stream& stream) {
    if (order::is_on() && is_known) order_hooks::access(order::Kind::Write, side, box, stream);
}

/// Reports that the stream is asked to work on memory in no allocation; `is_unused`: it is still the runtime's. Refuses
/// memory that was freed and is no longer mapped.
inline void note_stray(const void* ptr, std::size_t size, bool is_unused, Stream& stream) {
    if (order::is_on()) order_hooks::stray(ptr, size, is_unused, stream);
}

inline void note_prefetch(const void* ptr, std::size_t size, Stream& stream) {
    if (!order::is_on()) return;
    note_operation(stream);
    order_hooks::access(order::Kind::Prefetch, {ptr, 0, 0}, {size}, stream);
}

}  // namespace portamem::host
