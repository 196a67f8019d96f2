// SPDX-License-Identifier: MIT
// tests/cpp/host_containers.cpp: the headers' own containers where host memory runs out.
#include <memory>
#include <ostream>
#include <utility>

#include "host_memory_taken.hpp"
#include "host_support.hpp"
#include "portamem/detail/light_vector.hpp"

namespace pm = portamem;

TEST_CASE("host containers: a value that a light vector has no room for is still the caller's") {
    using Shared = std::shared_ptr<int>;
    pm::detail::LightVector<Shared> vector;
    for (std::size_t size = 0; size <= 16; ++size) {
        Shared value = std::make_shared<int>(1);
        const bool grows = vector.size() == vector.capacity();
        const bool has_failed = throws_without_host_memory(1, [&] { vector.push_back(std::move(value)); });
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
