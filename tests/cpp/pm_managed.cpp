// SPDX-License-Identifier: MIT
// tests/cpp/pm_managed.cpp: moving managed memory, and advising on it.
#include "pm_support.hpp"

using rt::MemoryAdvise;
using rt::MemRangeAttribute;

namespace {

constexpr std::size_t kBytes = 4 * MiB;
constexpr Location kHost{LocationType::Host, 0};
constexpr Location kDevice{LocationType::Device, 0};

bool no_managed() { return no_device() || !has_managed(); }
bool migrates() { return pm::query_capabilities(0).managed_mode == pm::ManagedMode::Migrating; }

}  // namespace

TEST_CASE("pm managed: a prefetch is queued and keeps every byte") {
    if (no_managed() || !migrates()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Buffer buffer(std::make_shared<pm::ManagedMemoryResource>(0), kBytes);
    put(buffer, 3);
    const Gate gate(stream);
    const auto done = pm::prefetch(pm::Span::of(buffer), kDevice, stream);
    CHECK_FALSE(done->query());
    gate.open();
    done->synchronize();
    CHECK(pm::range_attribute(pm::Span::of(buffer), MemRangeAttribute::LastPrefetchLocation) == std::vector<int>{0});
    CHECK(pm::prefetch(pm::Span::of(buffer), kHost) == nullptr);
    CHECK(pm::range_attribute(pm::Span::of(buffer), MemRangeAttribute::LastPrefetchLocation) ==
          std::vector<int>{rt::CpuDeviceId});
    CHECK(get(buffer) == pattern(kBytes, 3));
}

TEST_CASE("pm managed: advice can be read back and undone") {
    if (no_managed() || !migrates()) return;
    const pm::Buffer buffer(std::make_shared<pm::ManagedMemoryResource>(0), kBytes);
    const auto first = [&](MemRangeAttribute attribute) {
        return pm::range_attribute(pm::Span::of(buffer), attribute).at(0);
    };
    const auto advise = [&](MemoryAdvise advice, Location location) {
        pm::advise(pm::Span::of(buffer), advice, location);
    };
    advise(MemoryAdvise::SetReadMostly, kDevice);
    CHECK(first(MemRangeAttribute::ReadMostly) == 1);
    advise(MemoryAdvise::UnsetReadMostly, kDevice);
    CHECK(first(MemRangeAttribute::ReadMostly) == 0);
    advise(MemoryAdvise::SetPreferredLocation, kHost);
    CHECK(first(MemRangeAttribute::PreferredLocation) == rt::CpuDeviceId);
    advise(MemoryAdvise::UnsetPreferredLocation, kHost);
    CHECK(first(MemRangeAttribute::PreferredLocation) == rt::InvalidDeviceId);
    advise(MemoryAdvise::SetAccessedBy, kDevice);
    const auto users = pm::range_attribute(pm::Span::of(buffer), MemRangeAttribute::AccessedBy);
    CHECK(std::count(users.begin(), users.end(), 0) == 1);
    advise(MemoryAdvise::UnsetAccessedBy, kDevice);
    put(buffer, 9);
    CHECK(get(buffer) == pattern(kBytes, 9));
}

TEST_CASE("pm managed: other memory is refused before any call, in words") {
    if (no_device()) return;
    for (const Resource& resource : every_resource()) {
        if (resource->kind() == pm::ResourceKind::Managed) continue;
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const pm::Buffer buffer(resource, 4096);
        const std::string kind = pm::to_string(resource->kind());
        const auto span = [&] { return pm::Span::of(buffer); };
        if (resource->kind() == pm::ResourceKind::System && resource->is_device_accessible()) {
            (void)pm::prefetch(span(), kHost);
            pm::advise(span(), MemoryAdvise::SetReadMostly, kDevice);
            pm::advise(span(), MemoryAdvise::UnsetReadMostly, kDevice);
            continue;
        }
        CHECK(contains(refusal<std::invalid_argument>([&] { pm::prefetch(span(), kDevice); }), kind + " memory"));
        CHECK_THROWS_AS(pm::advise(span(), MemoryAdvise::SetReadMostly, kDevice), std::invalid_argument);
        CHECK_THROWS_AS(pm::range_attribute(span(), MemRangeAttribute::ReadMostly), std::invalid_argument);
    }
    char plain = 0;
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::prefetch(pm::Span::host(&plain, 1), kHost); }), "host"));
}

TEST_CASE("pm managed: a device that there is not is refused") {
    if (no_managed()) return;
    const pm::Buffer buffer(std::make_shared<pm::ManagedMemoryResource>(0), 4096);
    const Location nowhere{LocationType::Device, 1000};
    CHECK_THROWS_AS(pm::prefetch(pm::Span::of(buffer), nowhere), std::invalid_argument);
    CHECK_THROWS_AS(pm::advise(pm::Span::of(buffer), MemoryAdvise::SetAccessedBy, nowhere), std::invalid_argument);
    CHECK(buffer.exports() == 0);
}

TEST_CASE("pm managed: memory of the host until a stream attaches it") {
    if (no_managed()) return;
    const auto resource = std::make_shared<pm::ManagedMemoryResource>(0, rt::MemAttach::Host);
    const pm::Buffer buffer(resource, 4096);
    static_cast<unsigned char*>(buffer.ptr())[0] = 1;
    CHECK(pm::pointer_info(buffer.ptr()).type == rt::MemoryType::Managed);
}
