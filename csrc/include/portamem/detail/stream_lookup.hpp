// SPDX-License-Identifier: MIT
// portamem/detail/stream_lookup.hpp: which Stream stands for a handle: new ones, wrapped ones, default streams.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "portamem/detail/number_map.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

inline std::shared_ptr<Stream> Stream::create(int device, unsigned flags, int priority) {
    refuse_forked();
    const DeviceGuard guard(device);
    rt::Stream_t handle{};
    check(rt::StreamCreateWithPriority(&handle, flags, priority), "StreamCreateWithPriority");
    detail::watch_exit();
    auto made = make(handle, device, Kind::Owned, nullptr);
    made->is_known_nonblocking_ = (flags & rt::StreamNonBlocking) != 0;
    return known(std::move(made));
}

inline std::shared_ptr<Stream> Stream::from_handle(rt::Stream_t handle, int device, std::shared_ptr<void> owner,
                                                   bool ends_announced) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    if (value <= 1 || handle == rt::StreamLegacy()) return default_stream(device);
    if (value == 2 || handle == rt::StreamPerThread()) return per_thread(device);
    if (owner.use_count() != 0 || ends_announced) {
        auto made = make(handle, device, Kind::Foreign, std::move(owner), ends_announced);
        return made->tells_its_end_ ? known(std::move(made)) : made;
    }
    refuse_forked();
    const auto* found = detail::HandlesOfThread::find(handle, device);
    auto* const use = found == nullptr ? nullptr : (*found)->handle_use();
    // The vendor may have given the handle out again. Then the use ends, and the thread gets another Stream.
    if (use != nullptr && !use->is_same()) found = detail::HandlesOfThread::find(handle, device);
    if (found != nullptr) return *found;
    return make(handle, device, Kind::Foreign, nullptr);
}

inline std::shared_ptr<Stream> Stream::from_handle_alone(rt::Stream_t handle, int device) {
    const std::shared_ptr<Stream> shared = from_handle(handle, device);
    if (shared->is_default()) return shared;
    return std::shared_ptr<Stream>(new Stream(*shared, ForItself{}));
}

inline const std::shared_ptr<Stream>* Stream::of_this_thread(rt::Stream_t handle, int device) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    if (value <= 1 || handle == rt::StreamLegacy()) return &shared_default(device);
    if (value == 2 || handle == rt::StreamPerThread()) return nullptr;
    return detail::HandlesOfThread::find(handle, device);
}

inline std::shared_ptr<Stream> Stream::default_stream(int device) {
    refuse_forked();
    return shared_default(device);
}

inline std::shared_ptr<Stream> Stream::per_thread(int device) {
    static thread_local detail::NumberMap<int, std::shared_ptr<Stream>> streams;
    std::shared_ptr<Stream>& stream = streams[device];
    if (!stream) stream = make(rt::StreamPerThread(), device, Kind::PerThread, nullptr);
    return stream;
}

// Returns the default stream of a device. A thread that names it again takes no lock and makes no call, also in a
// forked child, where no other thread may hold the lock for ever.
inline const std::shared_ptr<Stream>& Stream::shared_default(int device) {
    struct Defaults {
        std::mutex mutex;
        detail::NumberMap<int, std::shared_ptr<Stream>> streams;
    };
    static thread_local const std::shared_ptr<Stream>* latest = nullptr;  // most threads use one device
    if (__builtin_expect(latest != nullptr && (*latest)->device_ == device, 1)) return *latest;
    refuse_forked();
    static auto& all = detail::process_object<Defaults>("default streams");
    const std::lock_guard<std::mutex> lock(all.mutex);
    std::shared_ptr<Stream>& stream = all.streams[device];
    if (!stream) stream = make(rt::StreamLegacy(), device, Kind::Legacy, nullptr);
    latest = &stream;
    return stream;
}

// These make a thread's Stream for a handle: the first where `told` tells the handle's end, the second where no
// Stream does.
inline std::shared_ptr<Stream> Stream::of_handle(rt::Stream_t handle, int device, const std::shared_ptr<Stream>& told) {
    auto made = make(handle, device, Kind::Foreign, nullptr);
    made->told_ = told;
    made->told_end_ = told->end_;
    made->memory_identity_ = told->identity_;
    return made;
}

inline std::shared_ptr<Stream> Stream::of_handle(rt::Stream_t handle, int device,
                                                 std::shared_ptr<detail::HandleUse> use) {
    auto made = make(handle, device, Kind::Foreign, nullptr);
    made->use_ = std::move(use);
    return made;
}

// Makes the stream findable by its handle until it ends.
inline std::shared_ptr<Stream> Stream::known(std::shared_ptr<Stream> stream) {
    stream->is_known_ = true;
    detail::KnownStreams::instance().add(stream->handle_, stream);
    return stream;
}

inline std::shared_ptr<Stream> Stream::make(rt::Stream_t handle, int device, Kind kind, std::shared_ptr<void> owner,
                                            bool ends_announced) {
    return std::shared_ptr<Stream>(new Stream(handle, device, kind, std::move(owner), ends_announced));
}

PORTAMEM_CLOSE
