// SPDX-License-Identifier: MIT
// tests/cpp/host_short_memory.cpp: headers while host memory runs out.
#include <ostream>

#include "host_memory_taken.hpp"
#include "pm_support.hpp"
#include "portamem/detail/light_vector.hpp"

TEST_CASE("host short memory: a value that a light vector has no room for is still the caller's") {
    using Shared = std::shared_ptr<int>;
    pm::detail::LightVector<Shared> vector;
    for (std::size_t size = 0; size <= 16; ++size) {
        Shared value = std::make_shared<int>(1);
        const bool grows = vector.size() == vector.capacity();
        fail_host_memory(1);
        bool has_failed = false;
        try {
            vector.push_back(std::move(value));
        } catch (const std::bad_alloc&) {
            has_failed = true;
        }
        fail_host_memory(0);
        REQUIRE(has_failed == grows);
        if (has_failed) {
            CHECK(vector.size() == size);
            REQUIRE(value != nullptr);
            CHECK(value.use_count() == 1);
            vector.push_back(std::move(value));
        }
        CHECK(vector.size() == size + 1);
        CHECK(vector[size].use_count() == 1);
    }
}

TEST_CASE("host short memory: a light vector takes an element of its own") {
    pm::detail::LightVector<std::shared_ptr<int>> vector;
    vector.push_back(std::make_shared<int>(5));
    for (long uses = 2; uses < 20; ++uses) {
        vector.push_back(vector[0]);
        CHECK(vector[0].use_count() == uses);
    }
}

TEST_CASE("host short memory: blocks of a fixed-size resource go back behind their work, whatever fails") {
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
        fail_host_memory(nth);
        try {
            third = fixed->allocate(4096, stream);
        } catch (const std::exception&) {
            ++failed;
        }
        fail_host_memory(0);
        if (third != nullptr) fixed->deallocate(third, 4096, stream);
        gate.open_soon();
        fixed->trim();
        CHECK(gate.is_open());
        CHECK(fixed->reserved() == 0);
    }
    CHECK(failed > 2);
}
