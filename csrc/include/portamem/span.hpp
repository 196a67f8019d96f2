// SPDX-License-Identifier: MIT
// portamem/span.hpp: one end of a copy.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "portamem/buffer.hpp"
#include "portamem/detail/hearing.hpp"

PORTAMEM_OPEN

/// Names a range of memory that an operation reads or writes: bytes of an allocation, or plain host memory of the
/// program, which `owner` keeps alive. A Span made by of() holds an export of its allocation.
struct Span {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    std::shared_ptr<Allocation> allocation;  // null: plain host memory
    std::shared_ptr<void> owner;             // of plain host memory; null: the caller keeps the memory
    Export pin;

    /// Names all of a buffer. While the Span lives, it is an export: close() of the buffer that owns the memory throws
    /// ExportError. Throws std::invalid_argument if the buffer is closed, and while its memory sleeps.
    static Span of(const Buffer& buffer) {
        Span span;
        span.pin = Export(buffer.allocation());
        span.allocation = buffer.allocation();
        span.ptr = buffer.address();
        span.nbytes = buffer.nbytes();
        return span;
    }
    /// Names host memory of the program. portamem keeps `owner` until the work has run. With a null owner the caller
    /// keeps the memory until then.
    static Span host(void* ptr, std::size_t nbytes, std::shared_ptr<void> owner = nullptr) {
        Span span;
        span.ptr = ptr;
        span.nbytes = nbytes;
        span.owner = std::move(owner);
        return span;
    }

    /// Returns the device whose streams should carry the operation; InvalidDeviceId for plain host memory.
    int device() const noexcept { return allocation ? allocation->traits().device : rt::InvalidDeviceId; }

    /// Throws std::invalid_argument for read-only memory, before an operation that would write it.
    void refuse_write() const {
        if (!allocation || !allocation->traits().read_only) return;
        throw std::invalid_argument(
            "the target is read-only memory: its owner lets others read it only. Copy it to memory of your own, and "
            "write there");
    }

    /// Returns the reference to keep until queued work has run: the owner of plain host memory. Allocations need none,
    /// because they go back behind their work in any case.
    std::shared_ptr<void> keep_alive() const { return allocation ? nullptr : owner; }

    /// Notes that work queued on this memory has run when `done` has happened, which this thread has recorded on the
    /// work's stream.
    void runs_until(const Stream& stream, const std::shared_ptr<Event>& done) const {
        if (allocation) allocation->runs_until(stream, done);
    }

    /// use_on declares that work on a stream uses the memory from now on. order_behind_users makes a stream wait for
    /// all work declared on the memory, for an operation that the caller waits for. For plain host memory they do
    /// nothing.
    void use_on(const std::shared_ptr<Stream>& stream) const {
        if (allocation) allocation->use_on(stream);
    }
    void order_behind_users(Stream& stream) const {
        if (allocation) allocation->order_behind_users(stream);
    }
};

namespace detail {

/// Returns the device for work on the spans: the device of the stream, or without a stream the first span's that has
/// one.
inline int device_of_work(const std::shared_ptr<Stream>& stream, const Span& a, const Span& b) {
    if (stream) return stream->device();
    return a.device() >= 0 ? a.device() : (b.device() >= 0 ? b.device() : current_device());
}

/// Keeps both ends alive behind what the stream holds now, and declares the use, so that a close waits for it too.
/// Where the runtime fails here, the call waits for the stream instead.
inline void keep_while_it_runs(const std::shared_ptr<Stream>& stream, const Span& a, const Span& b) noexcept {
    const HearingScope deaf(Hearing::Nothing);
    try {
        auto until = Event::create(stream->device());
        a.use_on(stream);
        b.use_on(stream);
        stream->record_unasked(*until);
        a.runs_until(*stream, until);
        b.runs_until(*stream, until);
        stream->keep(std::move(until), {a.keep_alive(), b.keep_alive()});
    } catch (...) {
        (void)rt::StreamSynchronize(stream->handle());
    }
}

/// Says how far work is when the call that submitted it returns.
enum class Progress {
    Queued,      ///< it may run later, as far as the caller knows
    ReadSource,  ///< it may run later, and has read its source
    Done,        ///< it has run
};

/// Submits work that uses the spans by calling `submit(stream)`, which returns the Progress. `b` is the source of a
/// copy.
/// - With a stream it returns an event at once.
/// - With null it runs on the default stream behind everything declared on the memory, is done on return, and returns
///   null.
template <class Submit>
std::shared_ptr<Event> run_on(const std::shared_ptr<Stream>& stream, const Span& a, const Span& b, Submit&& submit) {
    const bool blocking = stream == nullptr;
    const auto on = blocking ? Stream::default_stream(device_of_work(nullptr, a, b)) : stream;
    const Stream::Use use = on->in_use();  // another thread may close it meanwhile
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
        const Progress progress = submit(std::as_const(*on));
        try {
            if (progress == Progress::Done) {
                on->drain_all();
            } else {
                on->finish();
            }
        } catch (...) {  // the wait ended early, and the work goes on
            keep_while_it_runs(on, a, b);
            throw;
        }
        return nullptr;
    }
    // The event is made before the work is submitted: after that, every failure has to wait for the work.
    auto done = Event::create_to_record(on->device());
    const Progress progress = submit(std::as_const(*on));
    try {
        const DeclaredSoFar so_far = on->declared_so_far();
        on->record_unasked(*done);
        done->set_mark(Event::Mark::Work);
        done->stand_behind(so_far);
        if (progress == Progress::Done) return done;
        a.runs_until(*on, done);
        b.runs_until(*on, done);
        Kept::References references{a.keep_alive(), progress == Progress::ReadSource ? nullptr : b.keep_alive()};
        if (references[0] || references[1]) on->keep(done, std::move(references));
    } catch (...) {
        (void)rt::StreamSynchronize(on->handle());
        throw;
    }
    return done;
}

}  // namespace detail

PORTAMEM_CLOSE
