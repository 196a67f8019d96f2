// SPDX-License-Identifier: MIT
// What resources note of their blocks: a vector that grows by one at a time would copy all of it each time.
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
