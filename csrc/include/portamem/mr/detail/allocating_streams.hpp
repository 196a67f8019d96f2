// SPDX-License-Identifier: MIT
// portamem/mr/detail/allocating_streams.hpp: freeing stream-ordered memory on the stream that it came from.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "portamem/detail/number_map.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

/// Knows which stream each piece of memory came from, for runtimes that hand memory out too early when it is freed on
/// another stream. It keeps those streams alive, and is thread-safe.
class AllocatingStreams {
  public:
    /// Notes memory that was just allocated on a stream.
    void note(void* ptr, Stream& stream) {
        const std::lock_guard<std::mutex> lock(mutex_);
        streams_[ptr] = stream.shared_from_this();
    }

    /// Frees memory behind the work on `stream`, on the stream that it came from. Where that stream can take no more
    /// work (closed, captured, another thread's), it frees on `stream`, after a wait for all work there. Throws Error,
    /// and the memory is still allocated.
    void free(void* ptr, Stream& stream) {
        // The entry goes first: once freed, the address may be another allocation's.
        const std::shared_ptr<Stream> origin = take(ptr);
        try {
            if (origin && origin.get() != &stream) {
                if (free_on(*origin, ptr, stream)) return;
                stream.synchronize();
            }
            check(rt::FreeAsync(ptr, stream.handle()), "FreeAsync");
        } catch (...) {
            if (origin) note(ptr, *origin);
            throw;
        }
    }

  private:
    std::shared_ptr<Stream> take(void* ptr) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = streams_.find(ptr);
        if (found == streams_.end()) return nullptr;
        auto stream = std::move(found->second);
        streams_.erase(found);
        return stream;
    }

    // Returns false where the origin can take no more work.
    static bool free_on(Stream& origin, void* ptr, Stream& stream) {
        const Stream::Use use(origin);  // another thread may close it meanwhile
        if (!use || origin.is_elsewhere() || origin.capture_status() != rt::StreamCaptureStatus::None) return false;
        // Two streams may have the same handle.
        const bool is_same = origin.handle() == stream.handle() && origin.device() == stream.device();
        if (!is_same) origin.wait(stream);
        check(rt::FreeAsync(ptr, origin.handle()), "FreeAsync");
        return true;
    }

    std::mutex mutex_;
    detail::NumberMap<void*, std::shared_ptr<Stream>> streams_;
};

PORTAMEM_CLOSE
