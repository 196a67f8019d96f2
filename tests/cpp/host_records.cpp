// SPDX-License-Identifier: MIT
// Resources keep notes of their blocks: the notes cost little, and nothing is lost where host memory runs out.
#include <vector>

#include "host_memory_taken.hpp"
#include "pm_support.hpp"

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
            fail_host_memory(nth);
            try {
                resource->trim();
            } catch (const std::exception&) {
                ++failed;
            }
            fail_host_memory(0);
            resource->trim();
            CHECK(gate.is_open());
            CHECK(upstream->live_buffers() == 0);
        }
        CHECK(failed > 5);
    }
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
