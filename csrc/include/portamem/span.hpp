// SPDX-License-Identifier: MIT
// portamem/span.hpp: one end of a copy.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "portamem/buffer.hpp"

PORTAMEM_OPEN

/// A range of memory that an operation reads or writes: of an allocation, or of the host's own, kept alive by `owner`.
/// Holds an export while the operation is being submitted.
struct Span {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    std::shared_ptr<Allocation> allocation;  // null: plain host memory
    std::shared_ptr<void> owner;             // of plain host memory; may be null where the caller waits for the end
    Export pin;

    static Span of(const Buffer& buffer) {
        Span span;
        span.pin = Export(buffer.allocation());
        span.allocation = buffer.allocation();
        span.ptr = buffer.ptr();
        span.nbytes = buffer.nbytes();
        return span;
    }
    static Span host(void* ptr, std::size_t nbytes, std::shared_ptr<void> owner = nullptr) {
        Span span;
        span.ptr = ptr;
        span.nbytes = nbytes;
        span.owner = std::move(owner);
        return span;
    }

    /// The device whose streams should carry the operation; InvalidDeviceId for plain host memory.
    int device() const noexcept { return allocation ? allocation->traits().device : rt::InvalidDeviceId; }

    /// What must live until queued work has run. Not stream-ordered memory: it goes back behind that work in any case,
    /// and a stream that allocates, works and lets go in a loop has to find it again at once.
    std::shared_ptr<void> keep_alive() const {
        if (!allocation) return owner;
        return allocation->traits().stream_ordered ? nullptr : allocation;
    }

    /// Declares the use: on a stream from now on, or, for an operation that is waited for, behind all that was declared.
    void use_on(const std::shared_ptr<Stream>& stream) const {
        if (allocation) allocation->use_on(stream);
    }
    void order_behind_users(Stream& stream) const {
        if (allocation) allocation->order_behind_users(stream);
    }
};

namespace detail {

/// Where work on the spans runs that is given the stream, or none.
inline int device_of_work(const std::shared_ptr<Stream>& stream, const Span& a, const Span& b) {
    if (stream) return stream->device();
    return a.device() >= 0 ? a.device() : (b.device() >= 0 ? b.device() : current_device());
}

/// Submits work that uses the spans: `submit(stream)`, which answers at once with an event, or, where
/// stream is null, on the default stream behind everything declared on the memory, done on return with a null event.
template <class Submit>
std::shared_ptr<Event> run_on(const std::shared_ptr<Stream>& stream, const Span& a, const Span& b, Submit&& submit) {
    const bool blocking = stream == nullptr;
    const auto on = blocking ? Stream::default_stream(device_of_work(nullptr, a, b)) : stream;
    on->refuse_capture(blocking ? "a blocking operation" : "an operation that keeps its memory alive");
    const RelaxedCapture beside(on->device());
    for (const Span* span : {&a, &b}) {
        if (blocking) {
            span->order_behind_users(*on);
        } else {
            span->use_on(on);
        }
    }
    if (blocking) {
        submit(std::as_const(*on));
        on->synchronize();
        return nullptr;
    }
    // Made before the work is submitted: from there on nothing may fail without the work having been waited for.
    auto done = Event::create(on->device());
    submit(std::as_const(*on));
    try {
        on->record_unasked(*done);
        done->set_mark(Event::Mark::Work);
        Kept::References references{a.keep_alive(), b.keep_alive()};
        if (references[0] || references[1]) on->keep(done, std::move(references));
    } catch (...) {
        (void)rt::StreamSynchronize(on->handle());
        throw;
    }
    return done;
}

}  // namespace detail

PORTAMEM_CLOSE
