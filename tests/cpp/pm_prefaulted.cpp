// SPDX-License-Identifier: MIT
// tests/cpp/pm_prefaulted.cpp: pinned memory of pages that were prefaulted.
#include "pm_support.hpp"

namespace {

using Prefaulted = pm::PrefaultedPinnedMemoryResource;

std::shared_ptr<Prefaulted> prefaulted() { return std::make_shared<Prefaulted>(0); }

}  // namespace

TEST_CASE("pm prefaulted: it is pinned memory, the host's and the device's") {
    if (no_device()) return;
    const auto resource = prefaulted();
    CHECK(resource->kind() == pm::ResourceKind::Pinned);
    CHECK(resource->device_id() == rt::CpuDeviceId);
    CHECK(resource->is_host_accessible());
    CHECK(resource->is_device_accessible() == pinned_resource()->is_device_accessible());
    CHECK_FALSE(resource->is_stream_ordered());
    const auto c = pm::query_capabilities(0);
    const bool can = c.host_register && c.registered_pointer_is_device_pointer && c.pinned_coherent;
    CHECK(resource->registers() == can);
    const pm::Buffer buffer(resource, MiB);
    CHECK(resource->registers() == can);
    const auto info = pm::pointer_info(buffer.ptr());
    CHECK(info.type == rt::MemoryType::Host);
    CHECK(info.device_pointer == buffer.ptr());
}

TEST_CASE("pm prefaulted: host and device see each other's bytes") {
    if (no_device()) return;
    const auto resource = prefaulted();
    const auto stream = pm::Stream::create(0);
    for (const std::size_t nbytes : {std::size_t{1}, std::size_t{4096}, 2 * MiB, 5 * MiB + 3, 40 * MiB}) {
        CAPTURE(nbytes);
        const pm::Buffer pinned(resource, nbytes, stream);
        const pm::Buffer device(device_resource(), nbytes);
        auto* bytes = static_cast<unsigned char*>(pinned.ptr());
        const Bytes wanted = pattern(nbytes, 4);
        std::copy(wanted.begin(), wanted.end(), bytes);
        pm::copy(device, pinned, stream)->synchronize();
        CHECK(get(device) == wanted);
        pm::fill(pm::Span::of(device), 9, stream);
        pm::copy(pinned, device, stream)->synchronize();
        CHECK(Bytes(bytes, bytes + nbytes) == Bytes(nbytes, 9));
        pm::fill(pm::Span::of(pinned), 5, stream);
        stream->synchronize();
        CHECK(Bytes(bytes, bytes + nbytes) == Bytes(nbytes, 5));
    }
}

TEST_CASE("pm prefaulted: given back, the runtime knows nothing of it any more") {
    if (no_device()) return;
    const auto resource = prefaulted();
    const auto stream = pm::Stream::default_stream(0);
    void* ptr = resource->allocate(3 * MiB, stream);
    CHECK(pm::pointer_info(ptr).type == rt::MemoryType::Host);
    resource->deallocate(ptr, 3 * MiB, stream);
    CHECK(resource->live_buffers() == 0);
    resource->close();
    // Where pages are not registered, the next chunk is on its way meanwhile, perhaps to this very address.
    CHECK(eventually([ptr] { return pm::pointer_info(ptr).type == rt::MemoryType::Unregistered; }));
}

TEST_CASE("pm prefaulted: it goes back behind the work that uses it") {
    if (no_device()) return;
    const auto resource = prefaulted();
    const auto stream = pm::Stream::create(0);
    const pm::Buffer device(device_resource(), MiB);
    void* ptr = resource->allocate(MiB, stream);
    const Bytes wanted = pattern(MiB, 8);
    std::copy(wanted.begin(), wanted.end(), static_cast<unsigned char*>(ptr));
    const Gate gate(stream);
    REQUIRE(rt::MemcpyAsync(device.ptr(), ptr, MiB, MemcpyKind::Default, stream->handle()) == Success);
    gate.open_soon();
    resource->deallocate(ptr, MiB, stream);
    CHECK(gate.is_open());
    CHECK(get(device) == wanted);
}

TEST_CASE("pm prefaulted: no bytes are no memory") {
    if (no_device()) return;
    const auto resource = prefaulted();
    const auto stream = pm::Stream::default_stream(0);
    void* ptr = resource->allocate(0, stream);
    CHECK(ptr == nullptr);
    CHECK(resource->live_buffers() == 1);
    resource->deallocate(ptr, 0, stream);
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm prefaulted: what is not its own, or another size, is refused") {
    if (no_device()) return;
    const auto resource = prefaulted();
    const auto stream = pm::Stream::default_stream(0);
    void* ptr = resource->allocate(MiB, stream);
    void* second = resource->allocate(MiB, stream);
    if (resource->registers()) {
        CHECK(contains(refusal<std::invalid_argument>([&] { resource->deallocate(ptr, MiB / 2, stream); }),
                       "1048576 bytes, not 524288"));
    }
    int other = 0;
    CHECK_THROWS_AS(resource->deallocate(&other, MiB, stream), pm::Error);
    CHECK_THROWS_AS(resource->deallocate(static_cast<char*>(ptr) + 4096, MiB, stream), pm::Error);
    CHECK(resource->live_buffers() == 2);
    resource->deallocate(ptr, MiB, stream);
    CHECK_THROWS_AS(resource->deallocate(ptr, MiB, stream), pm::Error);
    CHECK(resource->live_bytes() == MiB);
    resource->deallocate(second, MiB, stream);
    CHECK(resource->live_buffers() == 0);
}

TEST_CASE("pm prefaulted: out of memory is told in words, and the next request works") {
    if (no_device()) return;
    const auto resource = prefaulted();
    for (const std::size_t nbytes : {std::size_t{1} << 50, ~std::size_t{0}, ~std::size_t{0} - 4096}) {
        CHECK_THROWS_AS(pm::Buffer(resource, nbytes), pm::Error);
        CHECK(resource->live_buffers() == 0);
        CHECK(rt::PeekAtLastError() == Success);
    }
    const pm::Buffer next(resource, MiB);
    put(next, 6);
    CHECK(get(next) == pattern(MiB, 6));
}

TEST_CASE("pm prefaulted: threads") {
    if (no_device()) return;
    const auto resource = prefaulted();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const auto stream = pm::Stream::default_stream(0);
            for (unsigned i = 0; i < 20; ++i) {
                const std::size_t nbytes = (std::size_t{1} << (12 + (i + t) % 10)) + t;
                auto* bytes = static_cast<unsigned char*>(resource->allocate(nbytes, stream));
                const Bytes wanted = pattern(nbytes, i * 4 + t);
                std::copy(wanted.begin(), wanted.end(), bytes);
                if (!std::equal(wanted.begin(), wanted.end(), bytes)) ++wrong;
                resource->deallocate(bytes, nbytes, stream);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(resource->live_buffers() == 0);
    CHECK(resource->live_bytes() == 0);
}

TEST_CASE("pm prefaulted: a pool over it cuts its chunks into blocks that both sides reach") {
    if (no_device()) return;
    const auto resource = prefaulted();
    const auto pool = pm::PoolMemoryResource::create(resource);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer device(device_resource(), 3 * MiB);
    for (unsigned turn = 0; turn < 3; ++turn) {
        for (const std::size_t nbytes : {std::size_t{100}, std::size_t{4096}, MiB, 3 * MiB}) {
            auto* bytes = static_cast<unsigned char*>(pool->allocate(nbytes, stream));
            CHECK(pm::pointer_info(bytes).type == rt::MemoryType::Host);
            const Bytes wanted = pattern(nbytes, turn);
            std::copy(wanted.begin(), wanted.end(), bytes);
            REQUIRE(rt::MemcpyAsync(device.ptr(), bytes, nbytes, MemcpyKind::Default, stream->handle()) == Success);
            REQUIRE(rt::MemsetAsync(bytes, 3, nbytes, stream->handle()) == Success);
            pool->deallocate(bytes, nbytes, stream);
            stream->synchronize();
            const Bytes seen = get(device);
            CHECK(std::equal(wanted.begin(), wanted.end(), seen.begin()));
        }
    }
    CHECK(resource->live_buffers() > 0);
    pool->trim();
    CHECK(resource->live_buffers() == 0);
    pool->close();
}
