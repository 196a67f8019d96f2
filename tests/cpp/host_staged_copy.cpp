// SPDX-License-Identifier: MIT
// tests/cpp/host_staged_copy.cpp: staged copies over a runtime whose calls fail.
#include "pm_support.hpp"
#include "portamem/detail/staged_copy.hpp"
#include "portamem/host/runtime_api.h"

using pm::detail::StagingLane;

namespace {

constexpr std::size_t kBlock = MiB / 4;
constexpr std::size_t kSize = 2 * StagingLane::kBlocks * kBlock + 99;

// Carries kSize bytes that lie one behind the other at both ends.
bool to_device(StagingLane& lane, const pm::Buffer& dst, const Bytes& src, const StreamPtr& on) {
    return lane.to_device({static_cast<char*>(dst.address())},
                          {const_cast<unsigned char*>(src.data()), kSize, 0, nullptr, nullptr}, kSize, on->handle(), 2);
}

}  // namespace

TEST_CASE("host staged copy: where pinned memory is refused, nothing is done, and the next call asks again") {
    StagingLane lane(0, kBlock);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kSize);
    const Bytes from = pattern(kSize, 1);
    const auto refuses = [&](const char* call, unsigned nth) {
        REQUIRE(pmhKnobFailCall(call, nth, 2) == pmhSuccess);
        CHECK_FALSE(to_device(lane, buffer, from, stream));
        (void)pmhKnobReset();
    };
    refuses("EventCreateWithFlags", 1);
    refuses("EventCreateWithFlags", 2);
    refuses("HostMalloc", 1);
    CHECK(to_device(lane, buffer, from, stream));
    stream->synchronize();
    CHECK(get(buffer) == from);
}

TEST_CASE("host staged copy: any n-th call fails, and the next copy is right") {
    StagingLane lane(0, kBlock);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), kSize);
    Bytes from = pattern(kSize, 2);
    Bytes to(kSize);
    const auto send = [&] { return eventually([&] { return to_device(lane, buffer, from, stream); }); };
    const auto fetch = [&] {
        return eventually([&] {
            return lane.to_host({to.data(), kSize, 0, nullptr, nullptr}, {static_cast<char*>(buffer.address())}, kSize,
                                stream->handle(), 2);
        });
    };
    REQUIRE(send());
    for (const bool to_device : {true, false}) {
        CAPTURE(to_device);
        for (const char* call : {"MemcpyAsync", "EventRecord", "EventQuery"}) {
            CAPTURE(call);
            unsigned failed = 0;
            for (unsigned nth = 1; nth <= 20; ++nth) {  // how often it asks is a matter of time
                CAPTURE(nth);
                REQUIRE(pmhKnobFailCall(call, nth, 719) == pmhSuccess);
                try {
                    (void)(to_device ? send() : fetch());
                } catch (const pm::Error& error) {
                    ++failed;
                    CHECK(error.code() == rt::Error_t::LaunchFailure);
                }
                (void)pmhKnobReset();
                from = pattern(kSize, nth);
                REQUIRE(send());
                REQUIRE(fetch());
                CHECK(to == from);
            }
            CHECK(failed >= StagingLane::kBlocks);
        }
    }
}

TEST_CASE("host staged copy: a copy that fails half-way leaves nothing of it queued") {
    constexpr std::size_t size = 3 * StagingLane::kBlockBytes;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(device_resource(), size);
    Bytes bytes = pattern(size, 3);
    const portamem_host_runs host{bytes.data(), size, 0, nullptr, nullptr};
    const auto carry = [&](bool to_device) {
        return pm::detail::carry_staged(pm::Span::of(buffer), {static_cast<char*>(buffer.address())}, host, size,
                                        to_device, *stream, 2);
    };
    REQUIRE(eventually([&] { return carry(true); }));
    stream->synchronize();
    for (const bool to_device : {true, false}) {
        CAPTURE(to_device);
        REQUIRE(pmhKnobSetCopyDelay(30'000) == pmhSuccess);
        REQUIRE(pmhKnobFailCall("MemcpyAsync", 3, 719) == pmhSuccess);
        CHECK_THROWS_AS((void)carry(to_device), pm::Error);
        CHECK(stream->query());
        (void)pmhKnobReset();
    }
}
