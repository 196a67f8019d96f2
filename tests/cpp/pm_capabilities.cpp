// SPDX-License-Identifier: MIT
// tests/cpp/pm_capabilities.cpp: what a device says that it can do, held against what it does.
#include <algorithm>
#include <cstdlib>
#include <thread>

#include "pm_support.hpp"

namespace {

/// Page-aligned memory of malloc.
std::unique_ptr<unsigned char, void (*)(void*)> pages(std::size_t nbytes) {
    auto* ptr = static_cast<unsigned char*>(std::aligned_alloc(4096, nbytes));
    REQUIRE(ptr != nullptr);
    return {ptr, &std::free};
}

std::uint64_t attribute_of(rt::MemPool_t pool, rt::MemPoolAttr attr) {
    std::uint64_t value = 0;
    REQUIRE(rt::MemPoolGetAttribute(pool, attr, &value) == Success);
    return value;
}

}  // namespace

TEST_CASE("pm capabilities: an answer is yes, no or unknown") {
    constexpr pm::Answer unknown;
    constexpr pm::Answer yes = true;
    constexpr pm::Answer no = false;
    static_assert(!unknown && !unknown.is_known() && !unknown.is_no());
    static_assert(yes && yes.is_known() && !yes.is_no());
    static_assert(!no && no.is_known() && no.is_no());
    const bool plain = unknown;
    CHECK_FALSE(plain);
}

TEST_CASE("pm capabilities: fields agree with each other") {
    if (no_device()) return;
    for (int ordinal = 0; ordinal < pm::device_count(); ++ordinal) {
        const pm::Device device(ordinal);
        const auto c = device.capabilities();
        if (c.managed_mode == pm::ManagedMode::Migrating) CHECK(c.concurrent_managed_access);
        if (c.integrated) CHECK(c.managed_mode != pm::ManagedMode::Migrating);
        if (c.xnack.is_known()) CHECK(c.pageable_memory_access.is_known());
        if (c.xnack.is_no()) CHECK(c.managed_mode != pm::ManagedMode::Migrating);
        if (c.uses_host_page_tables) CHECK(c.pageable_memory_access);
        if (c.memory_pools.is_no()) CHECK(c.pool_handle_types.value_or(0) == 0);
        if (c.ipc_memory_handles.is_no()) CHECK_FALSE(c.ipc_event_handles);
        CHECK(c.virtual_memory_minimum.has_value() == c.virtual_memory_recommended.has_value());
        if (c.virtual_memory) CHECK(c.virtual_memory_minimum.has_value());
        if (c.virtual_memory.is_no()) {
            CHECK_FALSE(c.virtual_memory_minimum.has_value());
            CHECK_FALSE(c.virtual_memory_handle_types.has_value());
        }
        if (c.virtual_memory_minimum) CHECK(*c.virtual_memory_recommended % *c.virtual_memory_minimum == 0);
        CHECK(c.multi_processor_count == device.properties().multi_processor_count);
        CHECK(c.warp_size == device.properties().warp_size);
        std::vector<int> peers;
        for (int peer = 0; peer < pm::device_count(); ++peer) {
            if (device.can_access_peer(pm::Device(peer))) peers.push_back(peer);
        }
        CHECK(c.peers == peers);
    }
}

TEST_CASE("pm capabilities: reading them leaves the current device alone, also on a fresh thread") {
    if (no_device()) return;
    const int last = pm::device_count() - 1;
    std::thread([last] {
        const int before = pm::current_device();
        (void)pm::Device(last).capabilities();
        CHECK(pm::current_device() == before);
    }).join();
}

TEST_CASE("pm capabilities: reading them leaves a capture whole") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    stream->begin_capture(rt::StreamCaptureMode::Global);
    (void)pm::Device(0).capabilities();
    CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
    stream->end_capture();
}

TEST_CASE("pm capabilities: pageable access is access: a device fills and copies memory of malloc") {
    if (no_device() || !pm::query_capabilities(0).pageable_memory_access) return;
    const auto plain = pages(8192);
    CHECK(rt::Memset(plain.get(), 7, 4096) == Success);
    CHECK(rt::DeviceSynchronize() == Success);
    CHECK(std::count(plain.get(), plain.get() + 4096, 7) == 4096);
    CHECK(rt::Memcpy(plain.get() + 4096, plain.get(), 4096, MemcpyKind::Default) == Success);
    CHECK(rt::DeviceSynchronize() == Success);
    CHECK(std::count(plain.get() + 4096, plain.get() + 8192, 7) == 4096);
}

TEST_CASE("pm capabilities: direct host access is access: the host reads what the device wrote") {
    if (no_device() || !pm::query_capabilities(0).direct_host_access) return;
    const pm::Buffer buffer(device_resource(), 4096);
    put(buffer, 3);
    const auto* seen = static_cast<const unsigned char*>(buffer.ptr());
    CHECK(Bytes(seen, seen + 4096) == pattern(4096, 3));
}

TEST_CASE("pm capabilities: registered pointers are the device's own where it is said") {
    if (no_device()) return;
    const auto c = pm::query_capabilities(0);
    if (c.host_register.is_no()) return;
    const auto plain = pages(4096);
    const pm::HostRegistration registered(plain.get(), 4096, 0, rt::HostRegisterMapped, nullptr);
    if (c.registered_pointer_is_device_pointer) CHECK(registered.device_ptr() == plain.get());
    if (c.registered_pointer_is_device_pointer.is_no()) CHECK(registered.device_ptr() != plain.get());
}

TEST_CASE("pm capabilities: what goes to other processes is asked per pointer") {
    if (no_device()) return;
    const auto c = pm::query_capabilities(0);
    int plain = 0;
    CHECK(pm::pointer_info(&plain).ipc_capable.is_no());
    CHECK(pm::pointer_info(nullptr).ipc_capable.is_no());
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const pm::Buffer buffer(resource, 4096);
        const pm::Answer capable = pm::pointer_info(buffer.ptr()).ipc_capable;
        if (resource->kind() == pm::ResourceKind::Device) {
            if (capable.is_known() && c.ipc_memory_handles.is_known())
                CHECK(bool(capable) == bool(c.ipc_memory_handles));
        } else {
            CHECK_FALSE(capable);
        }
    }
}

TEST_CASE("pm probe: what it found is what a pool does") {
    if (no_device() || !has_pools()) return;
    const auto found = pm::probe(pm::Device(0));
    REQUIRE(found.pool_threshold_accepted.is_known());
    REQUIRE(found.pool_threshold_effective.is_known());
    const auto stream = pm::Stream::create(0);
    for (const std::uint64_t threshold : {pm::AsyncMemoryResource::kKeepAll, std::uint64_t{0}}) {
        const auto pool = pm::AsyncMemoryResource::create(0, threshold);
        if (found.pool_threshold_accepted) CHECK(pool->get(rt::MemPoolAttr::ReleaseThreshold) == threshold);
        pm::Buffer buffer(pool, 8 * MiB, stream);
        buffer.close();
        stream->synchronize();
        if (found.pool_threshold_effective) {
            CHECK((pool->get(rt::MemPoolAttr::ReservedMemCurrent) >= 8 * MiB) == (threshold != 0));
        }
    }
}

TEST_CASE("pm probe: it leaves no trace, and is run once") {
    if (no_device()) return;
    const pm::Device device(0);
    const auto first = pm::probe(device);
    const int before = pm::current_device();
    std::size_t heap = 0;
    const bool has_heap = rt::DeviceGetLimit(&heap, rt::Limit::MallocHeapSize) == Success;
    rt::MemPool_t pool{};
    std::uint64_t reserved = 0;
    std::uint64_t threshold = 0;
    if (has_pools()) {
        REQUIRE(rt::DeviceGetDefaultMemPool(&pool, 0) == Success);
        reserved = attribute_of(pool, rt::MemPoolAttr::ReservedMemCurrent);
        threshold = attribute_of(pool, rt::MemPoolAttr::ReleaseThreshold);
    }
    const auto again = pm::probe(device);
    CHECK(bool(first.stream_capture) == bool(again.stream_capture));
    CHECK(bool(first.pool_threshold_effective) == bool(again.pool_threshold_effective));
    CHECK(pm::current_device() == before);
    if (has_heap) CHECK(device.limit(rt::Limit::MallocHeapSize) == heap);
    if (has_pools()) {
        CHECK(attribute_of(pool, rt::MemPoolAttr::ReservedMemCurrent) == reserved);
        CHECK(attribute_of(pool, rt::MemPoolAttr::ReleaseThreshold) == threshold);
    }
    CHECK(rt::PeekAtLastError() == Success);
}

TEST_CASE("pm probe: all devices, from many threads, and beside held work") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const Gate gate(stream);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            const int before = pm::current_device();
            for (int ordinal = 0; ordinal < pm::device_count(); ++ordinal) {
                CHECK(pm::probe(pm::Device(ordinal)).stream_capture.is_known());
            }
            CHECK(pm::current_device() == before);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK_FALSE(gate.is_open());
    gate.open();
    stream->synchronize();
}

TEST_CASE("pm probe: a capture is not disturbed") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    stream->begin_capture(rt::StreamCaptureMode::Global);
    // Found before, it is told; else it is refused in words. Either way the capture stays whole.
    try {
        (void)pm::probe(pm::Device(0));
    } catch (const std::invalid_argument& e) {
        CHECK(contains(e.what(), "probing"));
    }
    CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
    stream->end_capture();
}
