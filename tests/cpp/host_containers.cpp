// SPDX-License-Identifier: MIT
// tests/cpp/host_containers.cpp: the headers' own containers where host memory runs out.
#include <memory>
#include <ostream>
#include <utility>

#include "host_memory_taken.hpp"
#include "host_support.hpp"
#include "portamem/detail/chore.hpp"
#include "portamem/detail/light_vector.hpp"

using namespace host_tests;
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

TEST_CASE("host containers: chores run, stay and join without host memory, in the order in which they came") {
    Bytes ran;
    const auto chore = [&ran](unsigned char name, int rounds) {
        return pm::detail::Chore([&ran, name, rounds]() mutable {
            ran.push_back(name);
            return --rounds == 0;
        });
    };
    pm::detail::Chores chores, more;
    for (unsigned char name = 1; name <= 4; ++name) chores.add(chore(name, name % 2 == 0 ? 1 : 2));
    more.add(chore(5, 2));
    ran.reserve(100);
    const auto round = [&] {
        ran.clear();
        bool is_one_done = false;
        CHECK_FALSE(throws_without_host_memory(1, [&] { is_one_done = chores.run(); }));
        return is_one_done;
    };
    CHECK(round());
    CHECK(ran == Bytes{1, 2, 3, 4});
    CHECK_FALSE(throws_without_host_memory(1, [&] {
        chores.join(std::move(more));
        chores.join(pm::detail::Chores());
    }));
    CHECK(more.empty());
    CHECK(round());
    CHECK(ran == Bytes{1, 3, 5});
    chores.add(chore(6, 1));
    CHECK(round());
    CHECK(ran == Bytes{5, 6});
    CHECK(chores.empty());
    CHECK_FALSE(round());
    chores.add(chore(7, 1));
    CHECK_FALSE(chores.empty());  // it goes with the list
}
