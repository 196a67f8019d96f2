// SPDX-License-Identifier: MIT
// tests/cpp/pm_prefetch_adaptor.cpp: memory that is on its way from the start.
#include "pm_support.hpp"

namespace {

int last_prefetch(const pm::Buffer& buffer) {
    return pm::range_attribute(pm::Span::of(buffer), rt::MemRangeAttribute::LastPrefetchLocation).at(0);
}

Resource managed_resource() { return std::make_shared<pm::ManagedMemoryResource>(0); }

// Prefetch to a device needs pages that move on demand.
bool can_prefetch() { return !no_device() && has_managed() && pm::query_capabilities(0).concurrent_managed_access; }

}  // namespace

TEST_CASE("pm prefetch adaptor: managed memory goes to the stream's device, or where it is told to") {
    if (!can_prefetch()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer plain(managed_resource(), 8192, stream);
    CHECK(last_prefetch(plain) == rt::InvalidDeviceId);
    const pm::Buffer buffer(std::make_shared<pm::PrefetchAdaptor>(managed_resource()), 8192, stream);
    stream->synchronize();
    CHECK(last_prefetch(buffer) == 0);
    put(buffer, 4);
    CHECK(get(buffer) == pattern(8192, 4));
    const Location host{LocationType::Host, 0};
    const pm::Buffer at_home(std::make_shared<pm::PrefetchAdaptor>(managed_resource(), host), 8192, stream);
    stream->synchronize();
    CHECK(last_prefetch(at_home) == rt::CpuDeviceId);
    const pm::Buffer none(std::make_shared<pm::PrefetchAdaptor>(managed_resource()), 0, stream);
    CHECK(none.ptr() == nullptr);
}

TEST_CASE("pm prefetch adaptor: memory that does not move is refused") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        if (upstream->kind() == pm::ResourceKind::Managed) continue;
        if (upstream->kind() == pm::ResourceKind::System && upstream->is_device_accessible()) {
            const pm::Buffer buffer(std::make_shared<pm::PrefetchAdaptor>(upstream), 8192, pm::Stream::create(0));
            CHECK(last_prefetch(buffer) == 0);
            put(buffer, 1);
            CHECK(get(buffer) == pattern(8192, 1));
            continue;
        }
        const std::string text = refusal<std::invalid_argument>([&] { pm::PrefetchAdaptor{upstream}; });
        CHECK(contains(text, std::string("gives ") + pm::to_string(upstream->kind())));
    }
    if (!has_managed()) return;
    const Location nowhere{LocationType::Device, 1000};
    CHECK_THROWS_AS(pm::PrefetchAdaptor(managed_resource(), nowhere), std::invalid_argument);
}

TEST_CASE("pm prefetch adaptor: under capture it refuses, and the capture stays valid") {
    if (!can_prefetch()) return;
    const auto upstream = managed_resource();
    const auto resource = std::make_shared<pm::PrefetchAdaptor>(upstream);
    const auto stream = pm::Stream::create(0);
    stream->begin_capture(rt::StreamCaptureMode::Global);
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(resource, 100, stream); }), "captured"));
    CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
    stream->end_capture();
    CHECK(upstream->live_buffers() == 0);
}
