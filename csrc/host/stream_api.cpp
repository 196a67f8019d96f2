// SPDX-License-Identifier: MIT
// host/stream_api.cpp: streams by handle.
#include <pthread.h>

#include <atomic>
#include <memory>
#include <vector>

#include "entry.hpp"
#include "order_hooks.hpp"

namespace portamem::host {
namespace {

using Streams = std::vector<std::shared_ptr<Stream>>;

// A thread's own default streams, by device. The pointer outlives the object that retires them, so that a call made
// while the thread's objects are destroyed gets streams of its own again.
thread_local Streams* own_streams = nullptr;

struct Retirement {
    ~Retirement() {
        if (own_streams == nullptr || portamem_forked() != 0) return;
        const std::lock_guard<std::mutex> lock(state().mutex);
        for (const auto& stream : *own_streams)
            if (stream != nullptr) stream->retire();
        delete std::exchange(own_streams, nullptr);
    }
};

thread_local Retirement retirement;

const std::shared_ptr<Stream>& own_stream(State& state, Device& device) {
    if (own_streams == nullptr) {
        (void)&retirement;
        own_streams = new Streams(state.devices.size());
    }
    auto& stream = (*own_streams)[static_cast<std::size_t>(device.ordinal)];
    if (stream == nullptr) {
        auto made = std::make_shared<Stream>(device.ordinal, Stream::Role::PerThread, pmhStreamDefault);
        device.streams.push_back(made);
        stream = std::move(made);
    }
    return stream;
}

// The target of a handle. It is never read and never deleted.
struct Cell {
    char unused = 0;
};

// The number of destroyed streams: each may pass its handle to another stream. Setting a call that is to fail counts
// too.
std::atomic<std::uint64_t> streams_destroyed{0};

// The stream whose number the thread has asked for last: the same question again is answered without the lock.
struct Numbered {
    pmhStream_t handle;
    std::uint64_t destroyed;  // the number of destroyed streams before the question
    std::uint64_t id;
};
__attribute__((tls_model("initial-exec"))) __thread Numbered latest{};

// The runtime refuses every call in a forked child.
const int numbers_end_at_fork = pthread_atfork(nullptr, nullptr, [] { latest = {}; });

// Returns the handle that the next stream gets.
pmhStream_t spare_handle(State& state) {
    if (state.spare_handles.empty()) {
        auto made = std::make_unique<Cell>();
        state.spare_handles.push_back(reinterpret_cast<pmhStream_t>(made.get()));
        (void)made.release();
    }
    return state.spare_handles.back();
}

}  // namespace

void forget_numbers_of_streams() noexcept { streams_destroyed.fetch_add(1, std::memory_order_release); }

const std::shared_ptr<Stream>& stream_of(State& state, pmhStream_t handle) {
    if (handle == nullptr || handle == pmhStreamLegacy) return current_device(state).legacy;
    if (handle == pmhStreamPerThread) return own_stream(state, current_device(state));
    const auto found = state.streams.find(handle);
    if (found == state.streams.end())
        refuse(pmhErrorInvalidHandle, "there is no stream %p", static_cast<void*>(handle));
    return found->second;
}

}  // namespace portamem::host

using namespace portamem::host;

pmhError_t pmhStreamCreateWithPriority(pmhStream_t* handle, unsigned flags, int) {
    return enter("StreamCreateWithPriority", [&](State& state, Hold&) {
        require(handle != nullptr, "stream is null");
        require((flags & ~static_cast<unsigned>(pmhStreamNonBlocking)) == 0, "unknown stream flags");
        Device& device = current_device(state);
        auto stream = std::make_shared<Stream>(device.ordinal, Stream::Role::Created, flags);
        device.streams.push_back(stream);
        stream->handle = spare_handle(state);
        *handle = stream->handle;
        state.streams.emplace(*handle, std::move(stream));
        state.spare_handles.pop_back();
    });
}

pmhError_t pmhStreamDestroy(pmhStream_t handle) {
    return enter("StreamDestroy", [&](State& state, Hold&) {
        const auto found = state.streams.find(handle);
        if (found == state.streams.end())
            refuse(pmhErrorInvalidHandle, "there is no stream %p that could be destroyed", static_cast<void*>(handle));
        state.spare_handles.push_back(handle);
        const std::shared_ptr<Stream> stream = std::move(found->second);
        state.streams.erase(found);
        streams_destroyed.fetch_add(1, std::memory_order_release);
        if (const auto capture = stream->capture; capture != nullptr && capture->origin == stream->identity) {
            end_capture(state, *capture);
        } else if (capture != nullptr) {
            capture->invalidated = true;
            stream->capture = nullptr;
        }
        stream->retire();
    });
}

pmhError_t pmhStreamQuery(pmhStream_t handle) {
    return enter("StreamQuery", [&](State& state, Hold&) {
        Stream& stream = *stream_of(state, handle);
        forbid_progress_query(state, stream, "StreamQuery");
        const bool done = stream.is_idle() && (!stream.is_legacy() || implied_waits(state, stream).empty());
        if (!done) return pmhErrorNotReady;
        note_reached(end_for_host(stream));
        return pmhSuccess;
    });
}

pmhError_t pmhStreamSynchronize(pmhStream_t handle) {
    return enter("StreamSynchronize", [&](State& state, Hold& hold) {
        const std::shared_ptr<Stream> stream = stream_of(state, handle);
        forbid_progress_query(state, *stream, "StreamSynchronize");
        std::vector<Point> points{stream->end()};
        if (stream->is_legacy())
            for (Point& point : implied_waits(state, *stream)) points.push_back(std::move(point));
        wait_for(hold, points, end_for_host(*stream));
        state.synchronized(hold, stream->device);
    });
}

pmhError_t pmhLaunchHostFunc(pmhStream_t handle, pmhHostFn_t fn, void* user_data) {
    return enter("LaunchHostFunc", [&](State& state, Hold&) {
        require(fn != nullptr, "the host function is null");
        Stream& stream = *stream_of(state, handle);
        if (take(state, stream, "LaunchHostFunc")) return;
        (void)submit(state, stream, [fn, user_data] {
            this_thread().in_host_function = true;
            fn(user_data);
            this_thread().in_host_function = false;
        });
    });
}

pmhError_t pmhStreamGetFlags(pmhStream_t handle, unsigned* flags) {
    return enter("StreamGetFlags", [&](State& state, Hold&) {
        require(flags != nullptr, "flags is null");
        *flags = stream_of(state, handle)->flags;
    });
}

// There is one priority: every stream has a thread of the same rank.
pmhError_t pmhStreamGetPriority(pmhStream_t handle, int* priority) {
    return enter("StreamGetPriority", [&](State& state, Hold&) {
        require(priority != nullptr, "priority is null");
        (void)stream_of(state, handle);
        *priority = 0;
    });
}

pmhError_t pmhStreamGetDevice(pmhStream_t handle, int* device) {
    return enter("StreamGetDevice", [&](State& state, Hold&) {
        require(device != nullptr, "device is null");
        *device = stream_of(state, handle)->device;
    });
}

pmhError_t pmhStreamGetId(pmhStream_t handle, uint64_t* id) {
    if (handle == latest.handle && handle != nullptr && id != nullptr &&
        latest.destroyed == streams_destroyed.load(std::memory_order_acquire)) {
        *id = latest.id;
        return pmhSuccess;
    }
    (void)numbers_end_at_fork;
    return enter("StreamGetId", [&](State& state, Hold&) {
        require(id != nullptr, "id is null");
        const auto found = state.streams.find(handle);
        if (found == state.streams.end())
            refuse(pmhErrorInvalidHandle, "there is no stream %p that was created", static_cast<void*>(handle));
        *id = found->second->identity;
        if (state.fail_armed.load(std::memory_order_relaxed)) return;  // the fail rule counts calls
        latest = {handle, streams_destroyed.load(std::memory_order_relaxed), *id};
    });
}
