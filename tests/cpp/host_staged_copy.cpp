// SPDX-License-Identifier: MIT
// tests/cpp/host_staged_copy.cpp: staged copies over a runtime whose calls fail.
#include "pm_support.hpp"
#include "portamem/detail/staged_copy.hpp"
#include "portamem/host/runtime_api.h"

using pm::detail::StagingLane;

namespace {

constexpr std::size_t kSize = 2 * StagingLane::kBlocks * StagingLane::kBlockBytes + 99;

}  // namespace

TEST_CASE("host staged copy: where pinned memory is refused, nothing is done, and the next call asks again") {
    StagingLane lane(0);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kSize);
    const Bytes from = pattern(kSize, 1);
    for (const char* call : {"HostMalloc", "EventCreateWithFlags"}) {
        CAPTURE(call);
        for (const unsigned nth : {1u, 2u}) {
            REQUIRE(pmhKnobFailCall(call, nth, 2) == pmhSuccess);
            CHECK_FALSE(lane.to_device(buffer.address(), from.data(), kSize, stream->handle(), 2));
            (void)pmhKnobReset();
        }
    }
    CHECK(lane.to_device(buffer.address(), from.data(), kSize, stream->handle(), 2));
    stream->synchronize();
    CHECK(get(buffer) == from);
}

TEST_CASE("host staged copy: any n-th call fails, and the next copy is right") {
    StagingLane lane(0);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kSize);
    Bytes from = pattern(kSize, 2);
    Bytes to(kSize);
    REQUIRE(lane.to_device(buffer.address(), from.data(), kSize, stream->handle(), 2));
    int failed = 0;
    for (const bool to_device : {true, false}) {
        for (unsigned nth = 1;; ++nth) {
            CAPTURE(to_device);
            CAPTURE(nth);
            REQUIRE(pmhKnobFailCall(nullptr, nth, 719) == pmhSuccess);
            bool has_failed = false;
            try {
                (void)(to_device ? lane.to_device(buffer.address(), from.data(), kSize, stream->handle(), 2)
                                 : lane.to_host(to.data(), buffer.address(), kSize, stream->handle(), 2));
            } catch (const pm::Error& error) {
                has_failed = true;
                CHECK(error.code() == rt::Error_t::LaunchFailure);
            }
            (void)pmhKnobReset();
            if (!has_failed) break;
            ++failed;
            from = pattern(kSize, nth);
            REQUIRE(lane.to_device(buffer.address(), from.data(), kSize, stream->handle(), 2));
            REQUIRE(lane.to_host(to.data(), buffer.address(), kSize, stream->handle(), 2));
            CHECK(to == from);
        }
    }
    CHECK(failed > 40);
}

TEST_CASE("host staged copy: a copy that fails half-way leaves nothing of it queued") {
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kSize);
    Bytes bytes = pattern(kSize, 3);
    const pm::Span host = pm::Span::host(bytes.data(), kSize);
    const pm::Span device = pm::Span::of(buffer);
    REQUIRE(pm::detail::carry_staged(device, host, true, *stream, 2));
    stream->synchronize();
    for (const bool to_device : {true, false}) {
        CAPTURE(to_device);
        REQUIRE(pmhKnobSetCopyDelay(30'000) == pmhSuccess);
        REQUIRE(pmhKnobFailCall("MemcpyAsync", 3, 719) == pmhSuccess);
        CHECK_THROWS_AS(
            (void)pm::detail::carry_staged(to_device ? device : host, to_device ? host : device, to_device, *stream, 2),
            pm::Error);
        CHECK(stream->query());
        (void)pmhKnobReset();
    }
}
