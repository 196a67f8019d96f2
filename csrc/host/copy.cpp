// SPDX-License-Identifier: MIT
// host/copy.cpp: checks, queues and runs copies and fills.
#include "copy.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "entry.hpp"
#include "kernel.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

// Checks the direction. Pinned memory counts for either side, as on CUDA: devices reach it at the same address.
void check_direction(const char* call, int kind, const Place& dst, const Place& src) {
    const bool from_device = kind == pmhMemcpyDeviceToHost || kind == pmhMemcpyDeviceToDevice;
    const bool to_device = kind == pmhMemcpyHostToDevice || kind == pmhMemcpyDeviceToDevice;
    const auto check = [&](const Place& place, bool device_side, const char* end) {
        if (device_side && place.is_pageable())
            refuse(pmhErrorInvalidValue, "%s: the %s is pageable host memory, but the direction says device", call,
                   end);
        if (!device_side && place.is_device_memory())
            refuse(pmhErrorInvalidValue, "%s: the %s is device memory, but the direction says host", call, end);
    };
    if (kind == pmhMemcpyDefault) return;
    check(src, from_device, "source");
    check(dst, to_device, "destination");
}

int access_of(const State& state, const Allocation& record, int device) {
    if (record.device == device || record.kind == Kind::Device) return pmhMemAccessFlagsProtReadWrite;
    if (record.kind == Kind::Pool) return record.pool->access_of(device);
    // A runtime over this one, such as a stand-in, has rules of its own for what it maps itself.
    const bool is_open = !state.virtual_memory.is_reserved(record.base, record.size) ||
                         state.virtual_memory.has_access(record.base, device);
    return is_open ? pmhMemAccessFlagsProtReadWrite : pmhMemAccessFlagsProtNone;
}

// Refuses an end that the other end's device may not use so: memory of a pool and virtual memory are open to other
// devices only where access was given.
void require_access(const State& state, const char* call, const Place& end, const Place& other, int least) {
    const int device = other.record->device;
    const auto check = [&](const Allocation& record) {
        if ((access_of(state, record, device) & least) == least) return;
        refuse(pmhErrorInvalidValue, "%s: device %d has no access to memory of device %d at %p", call, device,
               record.device, static_cast<void*>(record.base));
    };
    if (end.record->kind != Kind::Virtual) return check(*end.record);
    for (const auto& record : state.allocations.holding_all(end.first, end.span)) check(*record);
}

// The calls that name both devices (MemcpyPeer) need no access: those of CUDA take such memory without it.
void check_access(const State& state, const char* call, const Place& dst, const Place& src) {
    if (!dst.is_device_memory() || !src.is_device_memory()) return;
    require_access(state, call, dst, src, pmhMemAccessFlagsProtReadWrite);
    require_access(state, call, src, dst, pmhMemAccessFlagsProtRead);
}

void pause(unsigned microseconds) {
    if (microseconds != 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

std::shared_ptr<Stream> stream_for(State& state, Form form, pmhStream_t handle) {
    return stream_of(state, form == Form::Blocking ? pmhStreamLegacy : handle);
}

}  // namespace

bool is_unused_memory(State& state, const void* ptr) {
    if (state.virtual_memory.is_reserved(ptr, 1)) return true;
    const auto before = state.allocations.before(ptr);
    if (before != nullptr && before->kind != Kind::Pool && before->mapping != nullptr &&
        static_cast<const char*>(ptr) < before->mapping->user() + before->mapping->size())
        return true;
    return std::any_of(state.devices.begin(), state.devices.end(), [&](const auto& device) {
        return std::any_of(device->pools.begin(), device->pools.end(), [&](auto& pool) { return pool->holds(ptr); });
    });
}

Place locate(State& state, const char* call, const Side& side, const Box& box, Stream& stream) {
    require(side.ptr != nullptr, "an address is null");
    const std::size_t rows = plus(times(box.depth - 1, side.slice), times(box.height - 1, side.pitch));
    const std::size_t span = plus(rows, box.width);
    char* ptr = static_cast<char*>(const_cast<void*>(side.ptr));
    if (auto record = state.allocations.holding(ptr)) {
        const auto offset = static_cast<std::size_t>(ptr - record->base);
        if (span > record->size - offset && state.allocations.holding_all(ptr, span).empty())
            refuse(pmhErrorInvalidValue, "%s of %zu bytes at offset %zu leaves the allocation of %zu bytes", call, span,
                   offset, record->size);
        char* data = record->alias + offset;
        return {data, side.pitch, side.slice, std::move(record), ptr, span};
    }
    refuse_heap(state, call, ptr, span);
    note_stray(ptr, span, is_unused_memory(state, ptr), stream);
    if (state.virtual_memory.is_reserved(ptr, 1))
        refuse(pmhErrorInvalidValue, "%s at %p, which is reserved: no memory with access is mapped there", call,
               static_cast<void*>(ptr));
    if (is_unused_memory(state, ptr))
        refuse(pmhErrorInvalidValue, "%s at %p, which is in no allocation", call, static_cast<void*>(ptr));
    if (state.allocations.overlapping(ptr, span) != nullptr || state.virtual_memory.is_reserved(ptr, span))
        refuse(pmhErrorInvalidValue, "%s of %zu bytes at %p runs from pageable memory into an allocation", call, span,
               static_cast<void*>(ptr));
    return {ptr, side.pitch, side.slice, nullptr, ptr, span};
}

std::function<void()> copy_work(const State& state, Place dst, Place src, const Box& box) {
    return [dst = std::move(dst), src = std::move(src), box, delay = state.copy_delay] {
        pause(delay);
        for (std::size_t z = 0; z < box.depth; ++z)
            for (std::size_t y = 0; y < box.height; ++y) std::memmove(dst.row(y, z), src.row(y, z), box.width);
    };
}

void copy(State& state, Hold& hold, const char* call, Form form, const Side& dst_side, const Side& src_side,
          const Box& box, int kind, pmhStream_t handle) {
    if (kind < pmhMemcpyHostToHost || kind > pmhMemcpyDefault)
        refuse(pmhErrorInvalidMemcpyDirection, "%s: %d is not a direction", call, kind);
    const std::shared_ptr<Stream> stream = stream_for(state, form, handle);
    if (box.is_empty()) return;
    Place dst = locate(state, call, dst_side, box, *stream);
    Place src = locate(state, call, src_side, box, *stream);
    check_direction(call, kind, dst, src);
    check_access(state, call, dst, src);
    if (take(state, *stream, call)) return;
    const bool on_device = dst.is_device_memory() && src.is_device_memory();
    const bool waits = dst.is_pageable() || src.is_pageable() || (dst.is_host_memory() && src.is_host_memory()) ||
                       (form == Form::Blocking && !on_device);
    const bool knows_dst = !dst.is_pageable();
    const bool knows_src = !src.is_pageable();
    const Point done = submit(state, *stream, copy_work(state, std::move(dst), std::move(src), box));
    note_read(src_side, box, knows_src, *stream);
    note_write(dst_side, box, knows_dst, *stream);
    if (waits) wait_for(hold, done, end_of(*stream));
}

void fill(State& state, Hold& hold, const char* call, Form form, const Side& side, const Box& box, int value,
          pmhStream_t handle) {
    const std::shared_ptr<Stream> stream = stream_for(state, form, handle);
    if (box.is_empty()) return;
    Place dst = locate(state, call, side, box, *stream);
    if (dst.is_pageable() && !state.config.pageable_is_device_accessible())
        refuse(pmhErrorInvalidValue, "%s of pageable host memory, which no device can reach", call);
    if (take(state, *stream, call)) return;
    // An asynchronous fill of pageable memory does not wait either: the caller keeps the memory, as with the vendors,
    // whose fills are never waited for.
    const bool waits = form == Form::Blocking && !dst.is_device_memory();
    const bool knows_dst = !dst.is_pageable();
    const Point done = submit(state, *stream, [dst = std::move(dst), box, value, delay = state.copy_delay] {
        pause(delay);
        for (std::size_t z = 0; z < box.depth; ++z)
            for (std::size_t y = 0; y < box.height; ++y) std::memset(dst.row(y, z), value, box.width);
    });
    note_write(side, box, knows_dst, *stream);
    if (waits) wait_for(hold, done, end_of(*stream));
}

}  // namespace portamem::host
