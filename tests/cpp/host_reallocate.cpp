// SPDX-License-Identifier: MIT
// tests/cpp/host_reallocate.cpp: reallocation over a runtime whose calls fail.
#include "pm_support.hpp"
#include "portamem/host/runtime_api.h"

namespace {

std::vector<Resource> resources() {
    return {device_resource(), pinned_resource(), pm::PoolMemoryResource::create(device_resource()),
            pm::AsyncMemoryResource::create(0)};
}

constexpr const char* kCalls[] = {
    "Malloc",      "HostMalloc",      "MallocFromPoolAsync", "MemcpyAsync",      "EventCreateWithFlags",
    "EventRecord", "StreamWaitEvent", "StreamSynchronize",   "EventSynchronize", "Free",
    "HostFree",    "FreeAsync"};

constexpr std::size_t kSize = 50'000;

void copied(void* dst, const void* src, const StreamPtr& stream) {
    REQUIRE(rt::MemcpyAsync(dst, src, kSize, rt::MemcpyKind::Default, stream->handle()) == rt::Error_t::Success);
    stream->synchronize();
}

}  // namespace

TEST_CASE("host reallocate: any n-th call fails, and the buffer has its old size and bytes, or the new size") {
    for (const Resource& resource : resources()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        unsigned failed = 0;
        for (const char* call : kCalls) {
            CAPTURE(call);
            for (unsigned nth = 1; nth <= 4; ++nth) {
                CAPTURE(nth);
                const auto stream = pm::Stream::create(0), user = pm::Stream::create(0);
                pm::Buffer buffer(resource, kSize, stream);
                put(buffer, nth);
                buffer.record_stream(user);
                REQUIRE(pmhKnobFailCall(call, nth, 719) == pmhSuccess);
                bool is_done = true;
                try {
                    pm::reallocate(buffer, 5'000'000);
                } catch (const pm::Error&) {
                    is_done = false;
                    ++failed;
                }
                (void)pmhKnobReset();
                CHECK(buffer.nbytes() == (is_done ? 5'000'000 : kSize));
                Bytes bytes = get(buffer);
                bytes.resize(kSize);
                CHECK(bytes == pattern(kSize, nth));
                buffer.close();
                CHECK(eventually([&] { return resource->live_buffers() == 0; }));
            }
        }
        CHECK(failed >= 2);
    }
}

TEST_CASE("host reallocate: any n-th call fails, and the memory at the address is still out, or moved") {
    const auto to = pinned_resource();
    for (const Resource& resource : resources()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        unsigned failed = 0;
        for (const char* call : kCalls) {
            CAPTURE(call);
            for (unsigned nth = 1; nth <= 3; ++nth) {
                CAPTURE(nth);
                const auto stream = pm::Stream::create(0);
                void* ptr = resource->allocate(kSize, stream);
                Bytes bytes = pattern(kSize, nth);
                copied(ptr, bytes.data(), stream);
                REQUIRE(pmhKnobFailCall(call, nth, 719) == pmhSuccess);
                void* there = ptr;
                try {
                    there = pm::move(ptr, to, stream);
                } catch (const pm::Error&) {
                    ++failed;
                }
                (void)pmhKnobReset();
                const Resource now = pm::resource_of(there);
                CHECK(now == (there == ptr ? resource : to));
                bytes.assign(kSize, 0);
                copied(bytes.data(), there, stream);
                CHECK(bytes == pattern(kSize, nth));
                pm::deallocate(there, stream);
                CHECK(eventually([&] { return resource->live_buffers() == 0 && to->live_buffers() == 0; }));
            }
        }
        CHECK(failed >= 2);
    }
}
