// SPDX-License-Identifier: MIT
// tests/cpp/pm_containers.cpp: the headers' own containers change as those of the standard library do.
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pm_support.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/detail/owned.hpp"

namespace {

using Shared = std::shared_ptr<int>;
using Light = pm::detail::LightVector<Shared>;

bool is_same(const Light& ours, const std::vector<Shared>& theirs) {
    return std::vector<Shared>(ours.begin(), ours.end()) == theirs;
}

}  // namespace

TEST_CASE("pm containers: a light vector changes as std::vector does, and destroys each element once") {
    std::mt19937 random(7);
    const auto object = std::make_shared<int>(0);
    {
        Light ours;
        std::vector<Shared> theirs;
        for (int step = 0; step < 3000; ++step) {
            const std::size_t from = theirs.empty() ? 0 : random() % theirs.size();
            const std::size_t to = theirs.empty() ? 0 : from + random() % (theirs.size() - from) / 8;
            switch (random() % 10) {
                case 0:
                    ours.erase(ours.begin() + from, ours.begin() + to);
                    theirs.erase(theirs.begin() + static_cast<long>(from), theirs.begin() + static_cast<long>(to));
                    break;
                case 1:
                    if (theirs.empty()) break;
                    ours.pop_back();
                    theirs.pop_back();
                    break;
                case 2:
                    if (theirs.size() > 200) ours.append(Light(ours.size() / 8, object));
                    if (theirs.size() > 200) theirs.insert(theirs.end(), theirs.size() / 8, object);
                    break;
                case 3:
                    if (theirs.size() < 500) break;
                    ours.clear();
                    theirs.clear();
                    break;
                default:
                    theirs.push_back(step % 2 == 0 ? object : std::make_shared<int>(step));
                    ours.push_back(theirs.back());
            }
            REQUIRE(is_same(ours, theirs));
        }
        const Light copied = ours;
        CHECK(is_same(copied, theirs));
        Light moved = std::move(ours);
        CHECK(is_same(moved, theirs));
        ours = copied;
        ours.push_back(ours.front());
        CHECK(ours.back() == ours.front());
        ours = {};
        CHECK(ours.empty());
    }
    CHECK(object.use_count() == 1);
}

TEST_CASE("pm containers: a light vector takes an element of its own") {
    Light vector;
    vector.push_back(std::make_shared<int>(5));
    for (long uses = 2; uses < 20; ++uses) {
        vector.push_back(vector[0]);
        CHECK(vector[0].use_count() == uses);
    }
}

TEST_CASE("pm containers: a light vector finds and erases what meets a condition") {
    Light vector;
    for (int i = 0; i < 10; ++i) vector.push_back(std::make_shared<int>(i));
    const Shared last = vector.back();
    vector.erase_if([](const Shared& each) { return *each % 3 != 0; });
    REQUIRE(vector.size() == 4);
    for (int i = 0; i < 4; ++i) CHECK(*vector[static_cast<std::size_t>(i)] == 3 * i);
    CHECK(vector.any_of([&](const Shared& each) { return each == last; }));
    CHECK_FALSE(vector.any_of([](const Shared& each) { return *each == 1; }));
    vector.erase_if([](const Shared&) { return true; });
    CHECK(vector.empty());
    CHECK(last.use_count() == 1);
}

TEST_CASE("pm containers: a node of a map carries its value to another key, unless the key is there") {
    const auto object = std::make_shared<int>(0);
    {
        pm::detail::NumberMap<int, Shared> from, to;
        from[1] = object;
        to.insert(2, from.extract(from.begin()));
        CHECK(from.empty());
        CHECK(to.find(2)->first == 2);
        CHECK(to[2] == object);
        from[1] = object;
        to.insert(2, from.extract(from.begin()));
        CHECK(object.use_count() == 2);
        const auto node = to.extract(to.begin());
        CHECK(node->second == object);
        from[3] = object;
        from = pm::detail::NumberMap<int, Shared>();
        CHECK(object.use_count() == 2);
    }
    CHECK(object.use_count() == 1);
}

TEST_CASE("pm containers: an owner destroys its object, and hands it on") {
    using Owner = pm::detail::Owned<Shared>;
    const auto object = std::make_shared<int>(0);
    Owner none = nullptr;
    CHECK_FALSE(none);
    {
        Owner first(new Shared(object));
        Owner second = std::move(first);
        CHECK_FALSE(first);
        CHECK(**second == 0);
        none = std::move(second);
        CHECK(object.use_count() == 2);
    }
    CHECK(object.use_count() == 2);
    none = nullptr;
    CHECK(object.use_count() == 1);
    Owner let_go(new Shared(object));
    delete let_go.release();
    CHECK(object.use_count() == 1);
}
