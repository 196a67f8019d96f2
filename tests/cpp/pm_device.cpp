// SPDX-License-Identifier: MIT
// tests/cpp/pm_device.cpp: devices by ordinal, and the current device, which every call leaves as it found it.
#include "pm_support.hpp"

TEST_CASE("pm device: an ordinal that there is not is refused before any call") {
    if (no_device()) return;
    const int count = pm::device_count();
    for (const int ordinal : {-1, count, 1 << 20}) {
        const std::string text = refusal<std::invalid_argument>([&] { (void)pm::Device(ordinal); });
        CHECK(contains(text, "there is no device " + std::to_string(ordinal)));
        CHECK(contains(text, "from 0 to " + std::to_string(count - 1)));
    }
}

TEST_CASE("pm device: identity") {
    if (no_device()) return;
    std::vector<std::string> uuids;
    for (int ordinal = 0; ordinal < pm::device_count(); ++ordinal) {
        const pm::Device device(ordinal);
        CHECK(device == pm::Device(ordinal));
        CHECK(device.ordinal() == ordinal);
        const std::string uuid = device.uuid();
        CHECK(uuid.size() == 36);
        CHECK(uuid.find_first_not_of("0123456789abcdef-") == std::string::npos);
        CHECK(std::count(uuids.begin(), uuids.end(), uuid) == 0);
        uuids.push_back(uuid);
        CHECK_FALSE(device.pci_bus_id().empty());
        CHECK_FALSE(std::string(device.properties().name).empty());
        CHECK_FALSE(std::string(device.properties().arch).empty());
        CHECK(device.properties().total_global_mem > 0);
    }
}

TEST_CASE("pm device: memory figures follow what is allocated") {
    if (no_device()) return;
    const pm::Device device(0);
    const auto resource = device_resource();
    settle();
    const auto before = device.memory_info();
    CHECK(before.free <= before.total);
    {
        const pm::Buffer buffer(resource, 8 * MiB);
        CHECK(device.memory_info().held == before.held + 8 * MiB);
        CHECK(device.memory_info().total == before.total);
    }
    CHECK(device.memory_info().held == before.held);
}

TEST_CASE("pm device: limits can be read, and set to what they are") {
    if (no_device()) return;
    const pm::Device device(0);
    const std::size_t heap = device.limit(rt::Limit::MallocHeapSize);
    CHECK(heap > 0);
    try {
        device.set_limit(rt::Limit::MallocHeapSize, heap);
        CHECK(device.limit(rt::Limit::MallocHeapSize) >= heap);
    } catch (const pm::Error& e) {
        CHECK((e.name() == "NotSupported" || e.name() == "UnsupportedLimit" || e.name() == "InvalidValue"));
    }
}

TEST_CASE("pm device: priorities are a range, lowest first") {
    if (no_device()) return;
    const auto [least, greatest] = pm::Device(0).stream_priority_range();
    CHECK(least >= greatest);
}

TEST_CASE("pm device: a guard puts the former device back, whatever happens") {
    if (no_device() || pm::device_count() < 2) return;
    pm::Device(0).set_current();
    {
        const pm::DeviceGuard outer(1);
        CHECK(pm::current_device() == 1);
        try {
            const pm::DeviceGuard inner(0);
            CHECK(pm::current_device() == 0);
            throw 1;
        } catch (int) {
            CHECK(pm::current_device() == 1);
        }
    }
    CHECK(pm::current_device() == 0);
    CHECK(pm::Device::current() == pm::Device(0));
}

TEST_CASE("pm device: work for another device leaves the current one alone") {
    if (no_device() || pm::device_count() < 2) return;
    pm::Device(0).set_current();
    const auto resource = std::make_shared<pm::DeviceMemoryResource>(1);
    const auto stream = pm::Stream::create(1);
    pm::Buffer buffer(resource, 4096, stream);
    pm::fill(pm::Span::of(buffer), 7, stream)->synchronize();
    CHECK(pm::pointer_info(buffer.ptr()).device == 1);
    CHECK(get(buffer) == Bytes(4096, 7));
    (void)pm::Device(1).memory_info();
    pm::Device(1).synchronize();
    buffer.close();
    stream->close();
    CHECK(pm::current_device() == 0);
}

TEST_CASE("pm device: peer access is switched on and off") {
    if (no_device() || pm::device_count() < 2) return;
    const pm::Device first(0);
    const pm::Device second(1);
    CHECK_FALSE(first.can_access_peer(first));
    if (!first.can_access_peer(second)) return;
    first.enable_peer_access(second);
    CHECK_THROWS_AS(first.enable_peer_access(second), pm::Error);
    first.disable_peer_access(second);
    CHECK_THROWS_AS(first.disable_peer_access(second), pm::Error);
}

TEST_CASE("pm device: the pointer query tells memory of every kind") {
    if (no_device()) return;
    int plain = 0;
    CHECK(pm::pointer_info(&plain).type == rt::MemoryType::Unregistered);
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const pm::Buffer buffer(resource, 4096);
        const auto type = pm::pointer_info(buffer.ptr()).type;
        switch (resource->kind()) {
            case pm::ResourceKind::Pinned:
                CHECK(type == rt::MemoryType::Host);
                break;
            case pm::ResourceKind::Managed:
                CHECK(type == rt::MemoryType::Managed);
                break;
            case pm::ResourceKind::System:
                CHECK(type == rt::MemoryType::Unregistered);
                break;
            default:
                CHECK(type == rt::MemoryType::Device);
        }
    }
}
