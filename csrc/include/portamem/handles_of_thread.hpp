// SPDX-License-Identifier: MIT
// portamem/handles_of_thread.hpp: the Stream by which a thread uses a handle; the end of stream.hpp includes it.
#pragma once

#include "portamem/detail/shared.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN
namespace detail {

inline const std::shared_ptr<Stream>* HandlesOfThread::find(rt::Stream_t handle, int device) {
    void** const place = place_of_handles();
    if (place == nullptr || *place == PORTAMEM_THREAD_ENDED) return nullptr;
    if (__builtin_expect(*place == nullptr, 0)) *place = new HandlesOfThread;
    auto& all = *static_cast<HandlesOfThread*>(*place);
    if (__builtin_expect(all.latest_ != nullptr && all.latest_handle_ == handle, 1)) {
        if (all.is_good(*all.latest_, handle, device)) return &all.latest_->stream;
    }
    return all.look(handle, device);
}

// A Stream that the program has closed is not good any more, because the handle lives on.
inline bool HandlesOfThread::is_good(Entry& entry, rt::Stream_t handle, int device) {
    if (entry.stream == nullptr || entry.device != device || entry.stream->is_closed()) return false;
    const HandleUse* const use = entry.stream->handle_use();
    if (use != nullptr && use->has_ended()) return false;
    KnownStreams& known = KnownStreams::instance();
    const std::uint64_t changes = known.changes();
    if (__builtin_expect(entry.changes == changes, 1)) return true;
    const auto now = known.find(handle);
    const bool is_it = now != nullptr && now->device() == device ? entry.stream->stands_for(*now) : use != nullptr;
    if (is_it) entry.changes = changes;
    return is_it;
}

inline const std::shared_ptr<Stream>* HandlesOfThread::look(rt::Stream_t handle, int device) {
    const auto found = entries_.find(handle);
    if (found != entries_.end() && is_good(found->second, handle, device)) {
        latest_ = &found->second;
        latest_handle_ = handle;
        return &latest_->stream;
    }
    KnownStreams& known = KnownStreams::instance();
    Entry made;
    made.device = device;
    made.changes = known.changes();
    const auto told = known.find(handle);
    if (told != nullptr && told->device() == device) {
        made.stream = Stream::of_handle(handle, device, told);
    } else {
        std::uint64_t id = 0;
        if (rt::StreamGetId(handle, &id) != rt::Error_t::Success) return nullptr;
        made.stream = Stream::of_handle(handle, device, shared<HandleUse>(handle, device, id));
    }
    if (found == entries_.end() && entries_.size() >= kMost) clear();
    Entry& entry = entries_[handle];
    if (entry.stream != nullptr && entry.stream->handle_use() != nullptr) entry.stream->handle_use()->end();
    entry = std::move(made);
    latest_ = &entry;
    latest_handle_ = handle;
    return &entry.stream;
}

inline void HandlesOfThread::clear() noexcept {
    latest_ = nullptr;
    for (auto& entry : entries_) {
        if (auto* const use = entry.second.stream->handle_use()) use->end();
    }
    entries_.clear();
}

}  // namespace detail
PORTAMEM_CLOSE
