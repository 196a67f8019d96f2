// SPDX-License-Identifier: MIT
// host/order_hooks.cpp: the runtime's own objects in the order checker's words.
#include "order_hooks.hpp"

#include <sys/mman.h>

#include "mapping.hpp"

namespace portamem::host::order_hooks {
namespace {

bool is_mapped(const void* ptr) {
    unsigned char in_memory = 0;
    const auto page = reinterpret_cast<std::uintptr_t>(ptr) & ~(std::uintptr_t{page_size} - 1);
    return mincore(reinterpret_cast<void*>(page), 1, &in_memory) == 0;
}

}  // namespace

order::StreamName name_of(Stream& stream) {
    const bool is_created = stream.role == Stream::Role::Created;
    const order::Role role = stream.is_legacy()     ? order::Role::Legacy
                             : stream.is_blocking() ? order::Role::Blocking
                                                    : order::Role::Free;
    const auto handle = is_created ? reinterpret_cast<std::uintptr_t>(stream.handle) : 0;
    return {stream.identity, handle, stream.device, role, stream.role == Stream::Role::PerThread};
}

order::Shape shape_of(const Side& side, const Box& box) {
    return {side.ptr, box.width, box.height, side.pitch, box.depth, side.slice};
}

order::Range range_of(const void* ptr, std::size_t size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    return {begin, begin + size};
}

void begin_life(const void* ptr, std::size_t size, Stream* stream) {
    if (ptr == nullptr) return;
    if (stream == nullptr) return checker().begin_life(range_of(ptr, size), nullptr, nullptr);
    const order::StreamName name = name_of(*stream);
    checker().begin_life(range_of(ptr, size), &name, &stream->order);
}

void end_life(const void* ptr, std::size_t size, Stream* stream) {
    if (stream == nullptr) return checker().end_life(range_of(ptr, size), nullptr, nullptr);
    const order::StreamName name = name_of(*stream);
    checker().end_life(range_of(ptr, size), &name, &stream->order);
}

void access(order::Kind kind, const Side& side, const Box& box, Stream& stream) {
    checker().access(kind, shape_of(side, box), name_of(stream), stream.order);
}

void stray(const void* ptr, std::size_t size, bool is_unused, Stream& stream) {
    const order::Range range = range_of(ptr, size);
    if (!is_unused && is_mapped(ptr)) return checker().forget(range);  // another owner has the memory by now
    if (!checker().stray(ptr, size, name_of(stream), stream.order) || is_unused) return;
    refuse(pmhErrorInvalidValue, "%p was freed, and nothing is there any more", ptr);
}

}  // namespace portamem::host::order_hooks
