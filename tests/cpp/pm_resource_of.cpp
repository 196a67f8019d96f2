// SPDX-License-Identifier: MIT
// tests/cpp/pm_resource_of.cpp: the resource, the size and the free of memory by its address alone, process-wide.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "pm_support.hpp"
#include "portamem/by_address.hpp"
#include "portamem/c_api.h"

namespace {

using ResourcePtr = std::shared_ptr<pm::MemoryResource>;

StreamPtr on() { return pm::Stream::default_stream(0); }

std::shared_ptr<pm::PoolMemoryResource> pool(ResourcePtr upstream = device_resource(), pm::PoolOptions options = {}) {
    return pm::PoolMemoryResource::create(std::move(upstream), std::move(options));
}

// Pools keep memory, unless PORTAMEM_POOL=off makes them pass each allocation on.
bool pools_keep() { return !pm::detail::pools_pass_through(); }

char* at(void* ptr, std::size_t offset) { return static_cast<char*>(ptr) + offset; }

ResourcePtr callback_over(const ResourcePtr& below) {
    return pm::CallbackMemoryResource::create(
        [below](std::size_t nbytes, const StreamPtr& stream) { return below->allocate(nbytes, stream); },
        [below](void* ptr, std::size_t nbytes, const StreamPtr& stream) { below->deallocate(ptr, nbytes, stream); },
        pm::CallbackMemoryResource::memory_of(pm::ResourceKind::Async, 0));
}

// Looks up a block as the resource's, frees it by its address, and looks again.
void check_found(const ResourcePtr& resource, std::size_t nbytes) {
    const std::size_t before = resource->live_buffers();
    void* const ptr = resource->allocate(nbytes, on());
    CHECK(pm::resource_of(ptr) == resource);
    CHECK(pm::size_of(ptr) == nbytes);
    CHECK(pm::resource_of(at(ptr, 1)) == nullptr);
    CHECK(pm::size_of(at(ptr, 1)) == std::nullopt);
    const auto block = pm::block_of(ptr);
    REQUIRE(block);
    CHECK(block->base == ptr);
    CHECK(block->nbytes == nbytes);
    CHECK(block->resource == resource);
    pm::deallocate(ptr, on());
    CHECK(pm::resource_of(ptr) == nullptr);
    CHECK(pm::size_of(ptr) == std::nullopt);
    CHECK_FALSE(pm::block_of(ptr));
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::deallocate(ptr, on()); }),
                   "no memory resource of this process has memory out at this address"));
    CHECK(resource->live_buffers() == before);
}

// A resource as another module shows it, with its own C tables. It passes on to one of this module, which is found too,
// but is made before it.
struct Elsewhere {
    ResourcePtr below;
    std::uint64_t identity = portamem_new_identity();
    int references = 1;
    std::vector<std::size_t> freed;

    explicit Elsewhere(ResourcePtr resource) : below(std::move(resource)) {
        REQUIRE(portamem_known_add(rt::BackendId, known(), this, identity, PORTAMEM_OVER_UNKNOWN) == 0);
    }
    ~Elsewhere() { portamem_known_remove(this); }

    static Elsewhere& of(void* self) { return *static_cast<Elsewhere*>(self); }
    portamem_resource handle() { return {table(), this}; }

    static const portamem_resource_ops* table() {
        static const portamem_resource_ops ops = {
            sizeof(portamem_resource_ops),
            [](void* self, std::size_t nbytes, void* stream, void** ptr) {
                *ptr = of(self).below->allocate(nbytes, static_cast<rt::Stream_t>(stream));
                return 0;
            },
            [](void* self, void* ptr, std::size_t nbytes, void* stream) {
                of(self).freed.push_back(nbytes);
                of(self).below->deallocate(ptr, nbytes, static_cast<rt::Stream_t>(stream));
                return 0;
            },
            [](void*) { return 0; },
            [](void*) { return 1; },
            [](void*) { return 0; },
            [](void* self) { ++of(self).references; },
            [](void* self) { --of(self).references; },
            nullptr,
            nullptr,
        };
        return &ops;
    }
    static const portamem_known_ops* known() {
        static const portamem_known_ops ops = {
            sizeof(portamem_known_ops),
            [](void* resource, portamem_resource* held) {
                ++of(resource).references;
                *held = of(resource).handle();
                return 0;
            },
            [](void* self, const void* ptr, portamem_address* found) {
                const auto nbytes = of(self).below->size_of(ptr);
                if (nbytes) *found = {PORTAMEM_ADDRESS_BLOCK, ptr, *nbytes};
            },
            [](void*, void*, void*) { return 0; },
        };
        return &ops;
    }
};

}  // namespace

TEST_CASE("pm resource of: every resource finds its blocks by their addresses") {
    if (no_device()) return;
    const auto of_pool = pool();
    const ResourcePtr resources[] = {
        of_pool,
        device_resource(),
        std::make_shared<pm::PinnedMemoryResource>(0),
        std::make_shared<pm::LimitingAdaptor>(device_resource(), 64 * MiB),
        pm::FixedSizeMemoryResource::create(device_resource(), 8192, 4),
        pm::MonotonicMemoryResource::create(device_resource()),
        pm::StatisticsAdaptor::create(device_resource()),
    };
    for (const ResourcePtr& resource : resources) {
        check_found(resource, 4096);
        check_found(resource, 1);
        resource->close();
    }
    int mine = 0;
    CHECK(pm::resource_of(&mine) == nullptr);
    CHECK(pm::size_of(&mine) == std::nullopt);
    CHECK(pm::resource_of(nullptr) == nullptr);
    CHECK(pm::size_of(nullptr) == std::nullopt);
    CHECK_THROWS_AS(pm::deallocate(&mine, on()), std::invalid_argument);
    pm::deallocate(nullptr, on());
    pm::deallocate(nullptr, rt::Stream_t{});
}

TEST_CASE("pm resource of: blocks of all sizes of a pool, by addresses inside of them too") {
    if (no_device()) return;
    pm::PoolOptions options;
    options.limit = 300 * MiB;
    const auto resource = pool(device_resource(), options);
    const std::size_t sizes[] = {1,          255,     257,         4096,        32 * 1024, 33 * 1024 + 1,
                                 300 * 1024, 1 * MiB, 5 * MiB + 7, 65 * MiB + 3};
    std::vector<void*> out;
    for (const std::size_t nbytes : sizes) out.push_back(resource->allocate(nbytes, on()));
    for (std::size_t i = 0; i < out.size(); ++i) {
        CHECK(pm::size_of(out[i]) == sizes[i]);
        for (const std::size_t offset : {std::size_t{0}, sizes[i] / 3, sizes[i] / 2, sizes[i] - 1}) {
            if (offset != 0 && pm::detail::debug_on) continue;  // between redzones a block is known by its beginning
            const auto block = pm::block_of(at(out[i], offset));
            REQUIRE(block);
            CHECK(block->base == out[i]);
            CHECK(block->nbytes == sizes[i]);
            CHECK(block->resource == resource);
        }
        const auto behind = pm::block_of(at(out[i], sizes[i]));
        CHECK((!behind || behind->base != out[i]));
    }
    for (void* ptr : out) pm::deallocate(ptr, rt::Stream_t{});
    for (void* ptr : out) CHECK_FALSE(pm::block_of(ptr));
    CHECK(resource->live_bytes() == 0);
    resource->close();
}

TEST_CASE("pm resource of: a block that is cut to the byte") {
    if (no_device() || pm::detail::debug_on) return;
    pm::PoolOptions options;
    options.limit = 8 * MiB;
    const auto resource = pool(device_resource(), options);
    check_found(resource, 8 * MiB - 100);
    resource->close();
}

TEST_CASE("pm resource of: the outermost resource of a stack is found") {
    if (no_device()) return;
    const auto lowest = device_resource();
    const auto inner = pool(lowest);
    const auto counts = pm::StatisticsAdaptor::create(inner);
    const auto outer = pool(counts);
    const auto limiting = std::make_shared<pm::LimitingAdaptor>(outer, 64 * MiB);
    const auto tracking = pm::TrackingAdaptor::create(limiting);
    const ResourcePtr stack[] = {lowest, inner, counts, outer, limiting, tracking};
    for (const ResourcePtr& resource : stack) check_found(resource, 5000);
    for (const ResourcePtr& resource : stack) check_found(resource, 3 * MiB);
    std::vector<void*> out;
    for (const ResourcePtr& resource : stack) out.push_back(resource->allocate(100000, on()));
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(pm::resource_of(out[i]) == stack[i]);
    for (void* ptr : out) pm::deallocate(ptr, on());
    for (const ResourcePtr& resource : {ResourcePtr(tracking), ResourcePtr(limiting), ResourcePtr(outer)}) {
        CHECK(resource->live_buffers() == 0);
        resource->close();
    }
    CHECK(counts->live_buffers() == 0);
    counts->close();
    inner->close();
    CHECK(lowest->live_buffers() == 0);
}

TEST_CASE("pm resource of: a resource by functions over a pool, and a pool over that") {
    if (no_device()) return;
    const auto inner = pool();
    const auto middle = callback_over(inner);
    const auto outer = pool(middle);
    check_found(inner, 5000);
    check_found(middle, 5000);
    check_found(outer, 5000);
    void* const ptr = middle->allocate(5000, on());
    if (!pm::detail::debug_on) {
        const auto block = pm::block_of(at(ptr, 77));
        REQUIRE(block);
        CHECK(block->base == ptr);
        CHECK(block->resource == middle);
    }
    pm::deallocate(ptr, on());
    outer->close();
    middle->close();
    inner->close();
}

TEST_CASE("pm resource of: a second free of a chunk's first block does not free the chunk") {
    if (no_device() || !pools_keep() || pm::detail::debug_on) return;
    const auto lowest = device_resource();
    for (const ResourcePtr& resource :
         {ResourcePtr(pool(lowest)), ResourcePtr(pm::FixedSizeMemoryResource::create(lowest, 3 * MiB, 1)),
          ResourcePtr(pm::MonotonicMemoryResource::create(lowest))}) {
        void* const ptr = resource->allocate(3 * MiB, on());
        REQUIRE(lowest->size_of(ptr));  // the block begins the chunk
        pm::deallocate(ptr, on());
        CHECK(pm::resource_of(ptr) == nullptr);
        CHECK_THROWS_AS(pm::deallocate(ptr, on()), std::invalid_argument);
        CHECK(lowest->live_buffers() == 1);
        resource->close();
        CHECK(lowest->live_buffers() == 0);
    }
}

TEST_CASE("pm resource of: memory that a pool has given back is its upstream's again") {
    if (no_device()) return;
    const auto lowest = device_resource();
    const auto resource = pool(lowest);
    void* const ptr = resource->allocate(3 * MiB, on());
    resource->deallocate(ptr, on());
    resource->trim();
    REQUIRE(resource->reserved() == 0);
    CHECK(pm::resource_of(ptr) == nullptr);
    for (int i = 0; i < 20; ++i) check_found(lowest, 3 * MiB);
    resource->close();
}

TEST_CASE("pm resource of: an adaptor that ends leaves its pool's blocks to the pool") {
    if (no_device()) return;
    const auto resource = pool();
    void* const ptr = resource->allocate(100, on());
    {
        const auto counts = pm::StatisticsAdaptor::create(resource);
        check_found(counts, 100);
        CHECK(pm::resource_of(ptr) == resource);
    }
    CHECK(pm::resource_of(ptr) == resource);
    pm::deallocate(ptr, on());
    resource->close();
}

TEST_CASE("pm resource of: a resource that no shared pointer holds") {
    if (no_device() || !pools_keep()) return;
    pm::PoolMemoryResource resource(device_resource());
    void* const ptr = resource.allocate(100, on());
    CHECK(pm::resource_of(ptr) == nullptr);
    resource.deallocate(ptr, on());
    resource.close();
}

TEST_CASE("pm resource of: the C functions, and their table") {
    if (no_device()) return;
    const auto resource = pool();
    const portamem_api* const api = portamem_get_api();
    REQUIRE(api->size >= sizeof(portamem_api));
    void* const ptr = resource->allocate(777, on());
    portamem_resource found{};
    REQUIRE(api->resource_of(rt::BackendId, ptr, &found) == 0);
    CHECK(found.ops->device_id(found.self) == 0);
    CHECK((found.ops->cached(found.self) > 0) == pools_keep());
    std::size_t nbytes = 0;
    REQUIRE(api->size_of(rt::BackendId, ptr, &nbytes) == 0);
    CHECK(nbytes == 777);
    CHECK(found.ops->deallocate(found.self, ptr, 777, nullptr) == 0);
    found.ops->release(found.self);
    CHECK(portamem_resource_of(rt::BackendId, ptr, &found) == -1);
    CHECK(portamem_size_of(rt::BackendId, ptr, &nbytes) == -1);
    CHECK(portamem_deallocate(rt::BackendId, ptr, nullptr) == -1);
    CHECK(portamem_deallocate(rt::BackendId, nullptr, nullptr) == 0);
    void* const other = resource->allocate(777, on());
    CHECK(api->deallocate(rt::BackendId, other, nullptr) == 0);
    const auto other_backend = rt::BackendId == PORTAMEM_BACKEND_HOST ? PORTAMEM_BACKEND_CUDA : PORTAMEM_BACKEND_HOST;
    void* const third = resource->allocate(777, on());
    CHECK(portamem_size_of(other_backend, third, &nbytes) == -1);
    CHECK(portamem_deallocate(other_backend, third, nullptr) == -1);
    pm::deallocate(third, on());
    resource->close();
}

TEST_CASE("pm resource of: look-ups while pools and adaptors come and go") {
    if (no_device()) return;
    std::atomic<bool> ends{false};
    const auto lasting = pool();
    void* const ours = lasting->allocate(1000, on());
    std::vector<std::atomic<void*>> shown(2);
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < shown.size(); ++number) {
        threads.emplace_back([&, number] {
            const auto stream = pm::Stream::create(0);
            for (int i = 0; i < 150; ++i) {
                ResourcePtr resource = pool();
                if (i % 2 == 1) resource = pm::StatisticsAdaptor::create(resource);
                void* const ptr = resource->allocate(i % 3 == 0 ? 3 * MiB : 512, stream);
                shown[number].store(ptr);
                CHECK(pm::resource_of(ptr) == resource);
                pm::deallocate(ptr, stream);
                stream->synchronize();
            }
            ends.store(true);
        });
    }
    threads.emplace_back([&] {
        while (!ends.load()) {
            for (auto& each : shown) {
                void* const ptr = each.load();
                (void)pm::resource_of(ptr);
                (void)pm::size_of(ptr);
                (void)pm::block_of(ptr);
            }
            CHECK(pm::resource_of(ours) == lasting);
            CHECK(pm::size_of(ours) == 1000);
        }
    });
    for (std::thread& thread : threads) thread.join();
    pm::deallocate(ours, on());
    lasting->close();
}

TEST_CASE("pm resource of: threads take and give back chunks, at the same addresses") {
    if (no_device()) return;
    const auto resource = pool();
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&] {
            const auto stream = pm::Stream::create(0);
            for (int i = 0; i < 400; ++i) {
                void* const ptr = resource->allocate(100000, stream);
                CHECK(pm::resource_of(ptr) == resource);
                CHECK(pm::size_of(ptr) == 100000);
                pm::deallocate(ptr, stream);
                resource->trim();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(resource->live_buffers() == 0);
    resource->close();
}

TEST_CASE("pm resource of: threads free each other's blocks by address, once each") {
    if (no_device()) return;
    const auto resource = pool();
    constexpr std::size_t kBlocks = 800;
    std::vector<void*> out(kBlocks);
    for (std::size_t i = 0; i < kBlocks; ++i) out[i] = resource->allocate(64 + 777 * (i % 90), on());
    on()->synchronize();
    std::atomic<int> freed{0};
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 2; ++number) {
        threads.emplace_back([&] {
            for (void* ptr : out) {
                try {
                    pm::deallocate(ptr, on());
                    ++freed;
                } catch (const std::invalid_argument&) {
                    ++refused;
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(freed == kBlocks);
    CHECK(refused == kBlocks);
    CHECK(resource->live_bytes() == 0);
    resource->close();
}

TEST_CASE("pm resource of: memory of another module's resource") {
    if (no_device() || pm::detail::debug_on) return;
    const auto below = pool();
    {
        Elsewhere other(below);
        void* ptr = nullptr;
        REQUIRE(other.table()->allocate(&other, 3000, nullptr, &ptr) == 0);
        CHECK(pm::size_of(ptr) == 3000);
        auto found = pm::resource_of(ptr);
        REQUIRE(found);
        CHECK(found != below);
        CHECK(found->kind() == pm::ResourceKind::Foreign);
        CHECK(found->size_of(ptr) == 3000);
        CHECK(found->live_bytes() == 3000);
        CHECK_THROWS_AS(found->deallocate(ptr, 2999, on()), std::invalid_argument);
        found->deallocate(ptr, on());
        CHECK(other.freed == std::vector<std::size_t>{3000});
        CHECK(found->live_buffers() == 0);
        CHECK(pm::resource_of(ptr) == nullptr);
        found.reset();

        REQUIRE(other.table()->allocate(&other, 300, nullptr, &ptr) == 0);
        pm::deallocate(ptr, on());
        REQUIRE(other.table()->allocate(&other, 200, nullptr, &ptr) == 0);
        pm::deallocate(ptr, rt::Stream_t{});
        REQUIRE(other.table()->allocate(&other, 100, nullptr, &ptr) == 0);
        CHECK(portamem_deallocate(rt::BackendId, ptr, nullptr) == 0);
        CHECK(other.freed == std::vector<std::size_t>{3000, 300, 200, 100});
        CHECK(other.references == 1);

        other.table()->retain(&other);
        const auto wrapper = pm::detail::from_registry(other.handle(), 0);
        ptr = wrapper->allocate(5000, on());
        CHECK(pm::resource_of(ptr) == wrapper);
        CHECK(pm::size_of(ptr) == 5000);
        pm::deallocate(ptr, on());
        CHECK(wrapper->live_buffers() == 0);
        CHECK(other.freed.back() == 5000);
        CHECK_THROWS_AS(wrapper->deallocate(ptr, on()), std::invalid_argument);
    }
    CHECK(below->live_buffers() == 0);
    below->close();
}
