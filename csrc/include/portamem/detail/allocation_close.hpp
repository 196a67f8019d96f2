// SPDX-License-Identifier: MIT
// portamem/detail/allocation_close.hpp: how the memory of an Allocation goes back when its holder closes it.
#pragma once

#include "portamem/allocation.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/capture.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/device.hpp"
#include "portamem/error.hpp"
#include "portamem/kept.hpp"
#include "portamem/mr/memory_resource.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

inline bool Allocation::close(const std::shared_ptr<Stream>& stream) {
    refuse_forked();
    if (!begin_close()) return false;
    try {
        give_back(stream ? stream : *stream_);
    } catch (...) {
        exports_.store(0, std::memory_order_release);
        throw;
    }
    return true;
}

// The memory stays where it is for its own stream alone: other streams were told of the bytes that it had, and would
// use new ones unordered.
inline bool Allocation::resize_in_place(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                        std::size_t alignment) {
    begin_resize();
    bool stays = stream == *stream_ && (reinterpret_cast<std::uintptr_t>(ptr_) & (alignment - 1)) == 0;
    if (stays && nbytes != nbytes_) {
        stays = resource_ != nullptr && !shared_.load(std::memory_order_acquire) &&
                resource_->resize_in_place(ptr_, nbytes_, nbytes, stream);
        if (stays) nbytes_ = nbytes;
    }
    end_resize();
    return stays;
}

inline void Allocation::close_and_wait() {
    refuse_forked();
    if (!begin_close()) return;
    try {
        synchronize_users();
        wait_for_borrowers();
    } catch (...) {
        exports_.store(0, std::memory_order_release);
        throw;
    }
    drop_owner();
}

inline void* Allocation::release() {
    if (!resource_) throw std::invalid_argument("the memory is not owned by this buffer: nothing to release");
    settle();
    if (!begin_close()) throw std::invalid_argument("the buffer is closed");
    return ptr_;
}

// Keeps new exports out until end_resize(). Throws ExportError under an export, and in another thread's resize.
inline void Allocation::begin_resize() {
    std::int64_t none = 0;
    if (exports_.compare_exchange_strong(none, kResizing, std::memory_order_acq_rel)) return;
    if (none < kResizing) throw std::invalid_argument("the buffer is closed");
    refuse_exports(none);
}

inline void Allocation::end_resize() noexcept { exports_.store(0, std::memory_order_release); }

// Closes to new exports; returns false where it was closed before. Throws ExportError under an export.
inline bool Allocation::begin_close() {
    std::int64_t none = 0;
    if (exports_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) return true;
    if (none < kResizing) return false;
    refuse_exports(none);
}

inline void Allocation::refuse_exports(std::int64_t count) {
    if (count == kResizing)
        throw ExportError("another thread gives the buffer another size: use it when that call has returned");
    throw ExportError("the buffer is in use by " + std::to_string(count) +
                      " export(s) (sub-views, views, memoryviews, DLPack tensors or a running copy): "
                      "close those first");
}

// A foreign handle may be gone unnoticed by now, while the work that was submitted by it still runs.
inline void Allocation::give_back(const std::shared_ptr<Stream>& named) {
    try {
        give_back_behind(named);
    } catch (const Error& e) {
        if (!is_gone(*named, e)) throw;
        Device(named->device()).synchronize();
        give_back_behind(Stream::default_stream((*stream_)->device()));
    }
}

// Returns whether a call was refused because the handle no longer exists, for a stream whose end no caller had to
// announce.
inline bool Allocation::is_gone(const Stream& stream, const Error& e) noexcept {
    // CUDA answers either code for a stream that was destroyed.
    const bool is_no_stream = e.code() == rt::Error_t::InvalidHandle || e.code() == rt::Error_t::InvalidContext;
    return !stream.tells_its_end() && is_no_stream;
}

inline void Allocation::order_behind(Stream& stream, Stream& user) {
    try {
        refuse_captured(user, "close");
        stream.wait(user);
    } catch (const Error& e) {
        if (!is_gone(user, e)) throw;
        Device(user.device()).synchronize();
    }
}

inline void Allocation::give_back_behind(const std::shared_ptr<Stream>& named) {
    if (named == *stream_ && give_back_cached()) return;
    // Another thread may close the stream meanwhile, without knowing of this memory.
    const Stream::Use use(*named);
    if (use && !shared_.load(std::memory_order_acquire) && named == *stream_ && resource_) {
        resource_->deallocate(ptr_, nbytes_, named);  // the usual case
        return;
    }
    auto behind = users();
    const RelaxedCapture beside((*stream_)->device());
    const auto stream = use ? named : stand_in(*named);
    if (named != *stream_) behind.push_back(*stream_);
    if (!resource_ && !owner_) return;
    wait_for_borrowers();
    // Marking a captured stream would harm the capture. It is refused here, and a drop that no caller asked for
    // tries again later.
    if (!behind.empty() || !resource_) stream->refuse_capture("close");
    for (const auto& user : behind) order_behind(*stream, *user);
    if (!resource_) {
        let_go(*stream);
        return;
    }
    resource_->deallocate(ptr_, nbytes_, stream);
}

// Waits for the devices on which undeclared streams may still use the memory.
inline void Allocation::wait_for_borrowers() {
    detail::LightVector<int> devices;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        devices = borrowers_;
    }
    for (const int device : devices) Device(device).synchronize();
}

// Lets go of the owner after the work that was declared on its memory.
inline void Allocation::let_go(Stream& stream) {
    auto tail = stream.tail();
    bool has_run = tail == nullptr;
    if (tail) {
        const detail::UntrackedQueries own;
        has_run = tail->has_happened();
    }
    if (!has_run) stream.keep(std::move(tail), {owner_, nullptr});
    drop_owner();
}

// The owner's end may run the program's code, so it comes after the lock.
inline void Allocation::drop_owner() {
    std::shared_ptr<void> dropped;
    std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(owner_);
}

PORTAMEM_CLOSE
