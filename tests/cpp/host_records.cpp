// SPDX-License-Identifier: MIT
// Resources keep notes of their blocks: the notes cost little, and nothing is lost where host memory runs out.
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host_memory_taken.hpp"
#include "pm_support.hpp"

namespace {

/// An upstream that takes nothing back while it refuses, and behind which there is no host memory while it starves its
/// callers.
class Harsh : public pm::ResourceAdaptor {
  public:
    explicit Harsh(Resource upstream) : pm::ResourceAdaptor(std::move(upstream)) {}
    bool refuses = false;
    bool starves = false;

  protected:
    void* take(std::size_t nbytes, const StreamPtr& stream, pm::AllocateOptions options) override {
        void* const ptr = pm::ResourceAdaptor::take(nbytes, stream, options);
        if (starves) fail_host_memory(1);
        return ptr;
    }
    void give_back(void* ptr, std::size_t nbytes, const StreamPtr& stream) override {
        if (refuses) throw std::runtime_error("not taken back");
        pm::ResourceAdaptor::give_back(ptr, nbytes, stream);
    }
};

/// Runs a function over each resource that notes every block of an upstream.
template <class Check>
void over_each(const Resource& upstream, Check&& check) {
    const auto none = pm::LimitingAdaptor::create(device_resource(), 0);
    const std::vector<std::pair<std::string, Resource>> all{
        {"limiting", pm::LimitingAdaptor::create(upstream, std::size_t{1} << 30)},
        {"failure callback", pm::FailureCallbackAdaptor::create(upstream, [](std::size_t) { return false; })},
        {"fallback", pm::FallbackAdaptor::create(upstream, none)},
        {"fallback's alternate", pm::FallbackAdaptor::create(none, upstream)},
        {"callback",
         pm::CallbackMemoryResource::create(
             [upstream](std::size_t nbytes, const StreamPtr& stream) { return upstream->allocate(nbytes, stream); },
             [upstream](void* ptr, std::size_t nbytes, const StreamPtr& stream) {
                 upstream->deallocate(ptr, nbytes, stream);
             },
             pm::CallbackMemoryResource::memory_of(pm::ResourceKind::Device, 0))}};
    for (const auto& each : all) {
        CAPTURE(each.first);
        check(each.second);
    }
}

}  // namespace

TEST_CASE("host records: what is noted of freed blocks of one size is not copied for each of them") {
    if (no_device()) return;
    constexpr std::size_t kBlocks = 20000;
    const auto resource = std::make_shared<pm::FixedSizeMemoryResource>(device_resource(), 256, 1024);
    const auto stream = pm::Stream::create(0);
    std::vector<void*> blocks(kBlocks);
    for (void*& block : blocks) block = resource->allocate(256, stream);
    const std::uint64_t before = host_memory_taken();
    for (void* const block : blocks) resource->deallocate(block, 256, stream);
    CHECK((host_memory_taken() - before) / kBlocks < 8 * sizeof(void*));
}

TEST_CASE("host records: chunks wait for the work that used them, also where a trim found no host memory") {
    if (no_device()) return;
    for (const bool is_busy : {false, true}) {
        CAPTURE(is_busy);
        int failed = 0;
        for (std::uint64_t nth = 1; nth <= 40; ++nth) {
            CAPTURE(nth);
            const auto upstream = device_resource();
            auto resource = std::make_shared<pm::FixedSizeMemoryResource>(upstream, 64 << 10, 4);
            const auto made_on = pm::Stream::create(0);
            const auto freed_on = pm::Stream::create(0);
            std::vector<void*> blocks(12);
            for (void*& block : blocks) block = resource->allocate(64 << 10, made_on);
            const Gate gate(freed_on);
            for (void* const block : blocks) resource->deallocate(block, 64 << 10, freed_on);
            if (is_busy) {
                gate.open_soon();
            } else {
                gate.open();
                freed_on->synchronize();
            }
            failed += throws_without_host_memory(nth, [&] { resource->trim(); }) ? 1 : 0;
            resource->trim();
            CHECK(gate.is_open());
            CHECK(upstream->live_buffers() == 0);
        }
        CHECK(failed > 5);
    }
}

TEST_CASE("host records: blocks of a fixed-size resource go back behind their work, whatever fails") {
    if (no_device()) return;
    int failed = 0;
    for (std::uint64_t nth = 1; nth < 20; ++nth) {
        CAPTURE(nth);
        const auto fixed = pm::FixedSizeMemoryResource::create(pinned_resource(), 4096, 2);
        const auto stream = pm::Stream::create(0);
        const auto other = pm::Stream::create(0);
        void* const first = fixed->allocate(4096, stream);
        void* const second = fixed->allocate(4096, stream);
        const Gate gate(other);
        fixed->deallocate(first, 4096, other);
        fixed->deallocate(second, 4096, other);
        void* third = nullptr;
        failed += throws_without_host_memory(nth, [&] { third = fixed->allocate(4096, stream); }) ? 1 : 0;
        if (third != nullptr) fixed->deallocate(third, 4096, stream);
        gate.open_soon();
        fixed->trim();
        CHECK(gate.is_open());
        CHECK(fixed->reserved() == 0);
    }
    CHECK(failed > 2);
}

TEST_CASE("host records: resources that end where there is no host memory give back all the same") {
    if (no_device()) return;
    for (const bool is_busy : {false, true}) {
        for (std::uint64_t nth = 1; nth <= 60; ++nth) {
            CAPTURE(is_busy);
            CAPTURE(nth);
            const auto upstream = device_resource();
            std::shared_ptr<pm::MonotonicMemoryResource> monotonic =
                std::make_shared<pm::MonotonicMemoryResource>(upstream, 64 << 10);
            auto fixed_size = std::make_shared<pm::FixedSizeMemoryResource>(upstream, 64 << 10, 4);
            const auto stream = pm::Stream::create(0);
            std::vector<std::pair<void*, std::size_t>> blocks;
            for (const std::size_t nbytes : {std::size_t{1} << 10, std::size_t{64} << 10, std::size_t{200} << 10}) {
                blocks.emplace_back(monotonic->allocate(nbytes, stream), nbytes);
            }
            void* const block = fixed_size->allocate(64 << 10, stream);
            const Gate gate;
            if (is_busy) gate.hold(stream);
            for (const auto& [ptr, nbytes] : blocks) monotonic->deallocate(ptr, nbytes, stream);
            fixed_size->deallocate(block, 64 << 10, stream);
            if (is_busy) gate.open_soon();
            fail_host_memory(nth);
            if (nth % 2 == 0) fixed_size.reset();
            monotonic.reset();
            fixed_size.reset();
            fail_host_memory(0);
            CHECK(eventually([&] { return upstream->live_buffers() == 0; }));
        }
    }
}

TEST_CASE("host records: no block is lost where host memory runs out and the upstream takes nothing back") {
    if (no_device()) return;
    const auto upstream = std::make_shared<Harsh>(device_resource());
    const auto stream = pm::Stream::create(0);
    over_each(upstream, [&](const Resource& resource) {
        int failed = 0;
        for (std::uint64_t nth = 1; nth <= 40; ++nth) {
            CAPTURE(nth);
            void* ptr = nullptr;
            upstream->refuses = true;
            failed += throws_without_host_memory(nth, [&] { ptr = resource->allocate(1000, stream); }) ? 1 : 0;
            upstream->refuses = false;
            if (ptr != nullptr) resource->deallocate(ptr, 1000, stream);
            CHECK(resource->live_buffers() == 0);
            CHECK(upstream->live_buffers() == 0);
        }
        CHECK(failed > 0);
    });
}

TEST_CASE("host records: a block that the upstream has given needs no more host memory") {
    if (no_device()) return;
    constexpr std::size_t kBlocks = 3000;
    const auto upstream = std::make_shared<Harsh>(device_resource());
    const auto stream = pm::Stream::create(0);
    over_each(upstream, [&](const Resource& resource) {
        std::vector<void*> blocks(kBlocks);
        resource->deallocate(resource->allocate(1, stream), 1, stream);  // it is listed now
        upstream->starves = true;
        for (void*& block : blocks) {
            try {
                block = resource->allocate(256, stream);
            } catch (const std::bad_alloc&) {
                block = nullptr;
            }
            fail_host_memory(0);
        }
        upstream->starves = false;
        std::size_t known = 0;
        for (void* const block : blocks) known += resource->size_of(block) == std::size_t{256} ? 1 : 0;
        CHECK(known == kBlocks);
        for (void* const block : blocks) {
            if (block != nullptr) resource->deallocate(block, 256, stream);
        }
        CHECK(resource->live_buffers() == 0);
        CHECK(upstream->live_buffers() == 0);
    });
}

TEST_CASE("host records: rows go back where there is no host memory for their buffer") {
    if (no_device()) return;
    const auto resource = pm::DeviceMemoryResource::create(0);
    const auto stream = pm::Stream::create(0);
    int failed = 0;
    for (std::uint64_t nth = 1; nth <= 20; ++nth) {
        CAPTURE(nth);
        const auto make = [&] { pm::PitchedBuffer(resource, 100, 30, stream).close(); };
        failed += throws_without_host_memory(nth, make) ? 1 : 0;
        CHECK(resource->live_buffers() == 0);
    }
    CHECK(failed > 1);
}
