// SPDX-License-Identifier: MIT
// tests/cpp/pm_resources.cpp: what every memory resource promises, whatever its memory.
#include "pm_support.hpp"

// A sanitizer's allocator ends the program at an absurd size, unless it is told to refuse it as others do.
extern "C" {
PORTAMEM_EXPORT const char* __asan_default_options() { return "allocator_may_return_null=1"; }
PORTAMEM_EXPORT const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
}

namespace {

constexpr std::size_t kTooMuch = std::size_t{1} << 50;

}  // namespace

TEST_CASE("pm resources: what memory is, is asked of the device") {
    if (no_device()) return;
    const auto c = pm::query_capabilities(0);
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        CHECK(resource->device() == 0);
        CHECK_FALSE(resource->is_closed());
        switch (resource->kind()) {
            case pm::ResourceKind::Device:
                CHECK(resource->device_id() == 0);
                CHECK(resource->is_host_accessible() == c.direct_host_access);
                CHECK(resource->is_device_accessible());
                break;
            case pm::ResourceKind::Pinned:
                CHECK(resource->device_id() == rt::CpuDeviceId);
                CHECK(resource->is_host_accessible());
                break;
            case pm::ResourceKind::System:
                CHECK(resource->device_id() == rt::CpuDeviceId);
                CHECK(resource->is_host_accessible());
                CHECK(resource->is_device_accessible() == c.pageable_memory_access);
                break;
            case pm::ResourceKind::Managed:
                CHECK(resource->is_host_accessible());
                CHECK(resource->is_device_accessible());
                break;
            default:
                CHECK_FALSE(resource->is_host_accessible());
        }
        CHECK(resource->is_stream_ordered() == (resource->kind() == pm::ResourceKind::Async));
    }
}

TEST_CASE("pm resources: memory that the host reaches can be written by it") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        if (!resource->is_host_accessible() || resource->kind() == pm::ResourceKind::Device) continue;
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const pm::Buffer buffer(resource, 4096);
        const Bytes bytes = pattern(4096, 12);
        pm::Device(0).synchronize();
        std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(buffer.ptr()));
        CHECK(get(buffer) == bytes);
    }
}

TEST_CASE("pm resources: one with live buffers refuses to close, naming count and bytes") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        pm::Buffer first(resource, 1000);
        pm::Buffer second(resource, 24);
        const std::string text = refusal<pm::ExportError>([&] { resource->close(); });
        CHECK(contains(text, "2 live buffer(s)"));
        CHECK(contains(text, "1024 bytes"));
        put(first, 1);
        CHECK(get(first) == pattern(1000, 1));
        first.close();
        CHECK(contains(refusal<pm::ExportError>([&] { resource->close(); }), "1 live buffer(s) of 24 bytes"));
        second.close();
        resource->close();
        resource->close();
        CHECK(resource->is_closed());
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(resource, 1); }), "closed"));
        CHECK(resource->is_closed());
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm resources: out of memory carries the figures, and the next request works") {
    if (no_device()) return;
    settle();
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const pm::Buffer live(resource, MiB);
        const auto held = pm::Device(0).memory_info().held;
        try {
            const pm::Buffer buffer(resource, kTooMuch);
            FAIL("no exception");
        } catch (const pm::OutOfMemory& e) {
            const auto& figures = e.figures();
            CHECK(e.code() == Error_t::OutOfMemory);
            CHECK(figures.asked == kTooMuch);
            CHECK(contains(e.what(), "1024 TiB"));
            CHECK(contains(e.what(), "close buffers"));
            const bool of_device = resource->device_id() >= 0;
            CHECK(figures.free.has_value() == of_device);
            if (of_device) {
                CHECK(figures.used == held);
                CHECK(*figures.free <= pm::Device(0).memory_info().total);
            }
            CHECK(figures.cached.has_value() == (resource->kind() == pm::ResourceKind::Async));
        }
        CHECK(resource->live_buffers() == 1);
        CHECK(resource->live_bytes() == MiB);
        CHECK(rt::PeekAtLastError() == Success);
        const pm::Buffer next(resource, MiB);
        put(next, 2);
        CHECK(get(next) == pattern(MiB, 2));
    }
}

TEST_CASE("pm resources: a refusal gives exact bytes where rounded ones would hide its reason") {
    if (no_device()) return;
    const auto plain = std::make_shared<pm::DeviceMemoryResource>(0);
    const std::size_t asked = pm::Device(0).memory_info().total + 1;
    try {
        const pm::Buffer buffer(plain, asked);
        FAIL("no exception");
    } catch (const pm::OutOfMemory& e) {
        REQUIRE(e.figures().free.has_value());
        const std::size_t free = *e.figures().free;
        const std::string asked_text = pm::detail::bytes_text(asked, free);
        const std::string free_text = pm::detail::bytes_text(free, asked);
        CHECK(asked_text != free_text);
        CHECK(contains(e.what(), "asked for " + asked_text + ", device 0 has " + free_text + " of "));
    }
}

TEST_CASE("pm resources: a size that no arithmetic survives is out of memory") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        CHECK_THROWS_AS(pm::Buffer(resource, ~std::size_t{0}), pm::Error);
        CHECK_THROWS_AS(pm::Buffer(resource, ~std::size_t{0} - 4096), pm::Error);
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm resources: a coherence of another kind of memory is refused") {
    if (no_device()) return;
    CHECK_THROWS_AS(pm::DeviceMemoryResource(0, rt::Coherence::Coherent), std::invalid_argument);
    CHECK_THROWS_AS(pm::DeviceMemoryResource(0, rt::Coherence::NonCoherent), std::invalid_argument);
    CHECK_THROWS_AS(pm::PinnedMemoryResource(0, 0, rt::Coherence::FineGrained), std::invalid_argument);
    CHECK_THROWS_AS(pm::PinnedMemoryResource(0, 0, rt::Coherence::Uncached), std::invalid_argument);
    if (has_managed()) CHECK_THROWS_AS(pm::ManagedMemoryResource(0, rt::MemAttach::Single), std::invalid_argument);
    CHECK_THROWS_AS(pm::DeviceMemoryResource(1000), std::invalid_argument);
    CHECK_THROWS_AS(pm::PinnedMemoryResource(-1), std::invalid_argument);
}

TEST_CASE("pm resources: fine-grained memory works or is not supported") {
    if (no_device()) return;
    const auto resource = std::make_shared<pm::DeviceMemoryResource>(0, rt::Coherence::FineGrained);
    try {
        const pm::Buffer buffer(resource, 4096);
        put(buffer, 3);
        CHECK(get(buffer) == pattern(4096, 3));
    } catch (const pm::Error& e) {
        CHECK(e.name() == "NotSupported");
    }
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm resources: stream-ordered memory takes a stream of its device") {
    if (no_device() || pm::device_count() < 2 || !has_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto stream = pm::Stream::create(1);
    const std::string text = refusal<std::invalid_argument>([&] { pm::Buffer(pool, 16, stream); });
    CHECK(contains(text, "belongs to device 1"));
    CHECK(pool->live_buffers() == 0);
}

TEST_CASE("pm resources: a free that the runtime refuses leaves the memory allocated") {
    if (no_device()) return;
    const auto resource = device_resource();
    pm::Buffer buffer(resource, 4096);
    char plain = 0;
    CHECK_THROWS_AS(resource->deallocate(&plain, 4096, buffer.stream()), pm::Error);
    CHECK(resource->live_buffers() == 1);
    CHECK(resource->live_bytes() == 4096);
    put(buffer, 5);
    CHECK(get(buffer) == pattern(4096, 5));
}

TEST_CASE("pm resources: deallocate refuses what cannot be its own") {
    if (no_device()) return;
    const auto resource = device_resource();
    const auto stream = pm::Stream::default_stream(0);
    void* ptr = resource->allocate(4096, stream);
    const std::string text = refusal<std::invalid_argument>([&] { resource->deallocate(ptr, 4097, stream); });
    CHECK(contains(text, "4096 bytes out, not 4097"));
    resource->deallocate(nullptr, 0, stream);  // nothing of 0 bytes is out
    CHECK(resource->live_buffers() == 1);
    CHECK_THROWS_AS(resource->close(), pm::ExportError);
    void* empty = resource->allocate(0, stream);
    CHECK(empty == nullptr);
    CHECK(resource->live_buffers() == 2);
    resource->deallocate(empty, 0, stream);
    CHECK(keeps_bytes(ptr, 4096, 3));
    resource->deallocate(ptr, 4096, stream);
    CHECK(resource->live_buffers() == 0);
    CHECK(resource->live_bytes() == 0);
}
