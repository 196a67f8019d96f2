// SPDX-License-Identifier: MIT
// tests/cpp/host_declared_operations.cpp: what memory keeps of the work on it, over a runtime whose calls fail.
#include "pm_support.hpp"
#include "portamem/host/runtime_api.h"

TEST_CASE("host declared operations: none is lost where the runtime fails to say which have run") {
    const auto stream = pm::Stream::create(0);
    for (unsigned nth = 1; nth <= 12; ++nth) {
        CAPTURE(nth);
        pm::Buffer buffer(device_resource(), 64);
        const Gate gate(stream);
        for (unsigned fills = 0; fills < 8; ++fills) pm::fill(pm::Span::of(buffer), 1, stream);
        REQUIRE(pmhKnobFailCall("EventQuery", nth, 719) == pmhSuccess);
        for (unsigned fills = 0; fills < 20; ++fills)
            CHECK_NOTHROW(pm::fill(pm::Span::of(buffer), static_cast<unsigned char>(fills), stream));
        (void)pmhKnobReset();
        CHECK_FALSE(stream->query());
        gate.open_soon();
        buffer.close();  // behind all of them
        CHECK(stream->query());
    }
}
