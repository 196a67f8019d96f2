// SPDX-License-Identifier: MIT
// portamem/fill.hpp: setting memory to a byte.
#pragma once

#include <cstring>
#include <memory>

#include "portamem/span.hpp"

PORTAMEM_OPEN

namespace detail {

// The runtimes fill only memory that a device reaches. For the rest the stream runs the C library's function.
struct HostFill {
    void* ptr;
    int value;
    std::size_t nbytes;

    static void run(void* self) {
        const std::unique_ptr<HostFill> fill(static_cast<HostFill*>(self));
        std::memset(fill->ptr, fill->value, fill->nbytes);
    }
};

inline void submit_fill(const Span& span, unsigned char value, const Stream& stream) {
    const bool plain = !span.allocation || !span.allocation->traits().device_accessible;
    if (!plain) {
        check(rt::MemsetAsync(span.ptr, value, span.nbytes, stream.handle()), "MemsetAsync");
        return;
    }
    auto fill = std::make_unique<HostFill>(HostFill{span.ptr, value, span.nbytes});
    stream.launch_host_func(HostFill::run, fill.get());
    (void)fill.release();
}

}  // namespace detail

/// Sets every byte. With a stream it is queued and answers an event; with a null stream it is done on return.
inline std::shared_ptr<Event> fill(const Span& span, unsigned char value,
                                   const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    return detail::run_on(stream, span, Span{}, [&](const Stream& on) { detail::submit_fill(span, value, on); });
}

/// Sets every byte of the rows, and none of the padding between them.
inline std::shared_ptr<Event> fill_2d(const PitchedBuffer& rows, unsigned char value,
                                      const std::shared_ptr<Stream>& stream = nullptr) {
    refuse_forked();
    const Span span = Span::of(rows);
    return detail::run_on(stream, span, Span{}, [&](const Stream& on) {
        if (rows.width() == 0 || rows.height() == 0) return;  // such memory has no pitch to speak of
        check(rt::Memset2DAsync(span.ptr, rows.pitch(), value, rows.width(), rows.height(), on.handle()),
              "Memset2DAsync");
    });
}

PORTAMEM_CLOSE
