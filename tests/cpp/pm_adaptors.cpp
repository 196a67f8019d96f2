// SPDX-License-Identifier: MIT
// tests/cpp/pm_adaptors.cpp: containers of the standard library in memory of resources.
#include <portamem/adaptors/std_allocator.hpp>
#include <portamem/adaptors/std_memory_resource.hpp>

#include <list>
#include <map>
#include <numeric>
#include <string>

#include "pm_support.hpp"

namespace {

template <class T>
using Vector = std::vector<T, pm::StdAllocator<T>>;

/// Resources whose memory the host reaches, pools among them.
std::vector<Resource> host_resources() {
    std::vector<Resource> all;
    for (const Resource& resource : every_resource()) {
        if (resource->is_host_accessible()) all.push_back(resource);
    }
    const Resource pool = pm::PoolMemoryResource::create(pinned_resource());
    all.push_back(pm::StatisticsAdaptor::create(pool));  // stream-ordered, and no pool itself
    all.push_back(pool);
    return all;
}

struct alignas(512) Wide {
    double value = 0;
};

}  // namespace

TEST_CASE("pm adaptors: a vector grows, is copied, moved and swapped in a resource's memory") {
    if (no_device()) return;
    for (const Resource& resource : host_resources()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto other = pm::PoolMemoryResource::create(pinned_resource());
        {
            Vector<double> values{pm::StdAllocator<double>(resource)};
            for (int i = 0; i < 5000; ++i) values.push_back(i);
            CHECK(std::accumulate(values.begin(), values.end(), 0.0) == 4999.0 * 2500);
            CHECK(resource->live_buffers() == 1);
            CHECK(resource->live_bytes() == values.capacity() * sizeof(double));
            Vector<double> copy(values);
            CHECK(resource->live_buffers() == 2);
            CHECK(copy == values);
            const double* const where = values.data();
            const Vector<double> moved(std::move(values));
            CHECK(moved.data() == where);
            values.assign(3, 2.0);  // one that was moved from is used again
            CHECK(values.get_allocator().from().resource() == resource);
            CHECK(values.back() == 2.0);
            Vector<double> elsewhere(3, 7.0, pm::StdAllocator<double>(other));
            swap(copy, elsewhere);
            CHECK(copy.get_allocator().from().resource() == other);
            CHECK(copy.back() == 7.0);
            elsewhere = moved;
            CHECK(elsewhere.back() == 4999.0);
            CHECK(other->live_buffers() == 1);
        }
        CHECK(resource->live_buffers() == 0);
        CHECK(other->live_buffers() == 0);
        CHECK(eventually([&] { return resource->live_bytes() == 0; }));
    }
}

TEST_CASE("pm adaptors: containers of nodes, and of objects with a large alignment") {
    if (no_device()) return;
    const auto pool = pm::PoolMemoryResource::create(pinned_resource());
    {
        const pm::StdAllocator<int> from(pool);
        std::list<int, pm::StdAllocator<int>> numbers({1, 2, 3}, from);
        std::map<int, double, std::less<>, pm::StdAllocator<std::pair<const int, double>>> by_number{from};
        for (const int number : numbers) by_number[number] = number / 2.0;
        CHECK(by_number.at(3) == 1.5);
        CHECK(pool->live_buffers() >= 6);
        const Vector<Wide> wide(9, Wide{2.5}, from);
        CHECK(reinterpret_cast<std::uintptr_t>(wide.data()) % 512 == 0);
        CHECK(wide[8].value == 2.5);
    }
    CHECK(pool->live_buffers() == 0);
}

TEST_CASE("pm adaptors: a std::pmr resource") {
    if (no_device()) return;
    for (const Resource& resource : host_resources()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto stream = pm::Stream::create(0);
        {
            pm::StdMemoryResource memory(resource, stream);
            std::pmr::vector<std::pmr::string> words(&memory);
            for (int i = 0; i < 100; ++i)
                words.emplace_back("a word that is too long for a string itself, " + std::to_string(i));
            CHECK(words[42].back() == '2');
            CHECK(words[0].get_allocator().resource() == &memory);
            CHECK(resource->live_buffers() == 101);
            std::pmr::monotonic_buffer_resource arena(4096, &memory);
            const std::pmr::vector<double> values(1000, 0.5, &arena);
            CHECK(values[999] == 0.5);
            CHECK(resource->live_buffers() > 101);
            pm::StdMemoryResource same(resource, stream);
            pm::StdMemoryResource other(resource);
            CHECK(memory == same);
            CHECK(memory != other);
            CHECK(memory != *std::pmr::new_delete_resource());
        }
        CHECK(resource->live_buffers() == 0);
    }
}

TEST_CASE("pm adaptors: what is refused, and what is thrown") {
    if (no_device()) return;
    CHECK_THROWS_WITH_AS(pm::StdAllocator<int>(nullptr), doctest::Contains("not null"), std::invalid_argument);
    const auto device = pm::PoolMemoryResource::create(device_resource());
    if (!device->is_host_accessible()) {
        CHECK_THROWS_WITH_AS(pm::StdMemoryResource{device}, doctest::Contains("does not reach"), std::invalid_argument);
    }
    pm::StdAllocator<Wide> wide(pinned_resource());
    CHECK_THROWS_AS((void)wide.allocate(~std::size_t{0} / 256), std::bad_array_new_length);
    CHECK_THROWS_AS((void)wide.allocate(1), std::invalid_argument);  // plain memory is aligned to 256 bytes
    const auto limited = pm::LimitingAdaptor::create(pinned_resource(), 1024);
    Vector<char> bytes{pm::StdAllocator<char>(limited)};
    bytes.resize(1000, 'a');
    CHECK_THROWS_AS(bytes.resize(2000), pm::OutOfMemory);
    CHECK(bytes.size() == 1000);
    CHECK(bytes.back() == 'a');
}

TEST_CASE("pm adaptors: a container keeps its resource and its stream") {
    if (no_device()) return;
    auto resource = pm::PoolMemoryResource::create(pinned_resource());
    auto stream = pm::Stream::create(0);
    const std::weak_ptr<pm::MemoryResource> watch = resource;
    {
        Vector<int> values(10, 3, pm::StdAllocator<int>(resource, stream));
        resource.reset();
        stream.reset();
        values.resize(1000, 4);
        CHECK(values[9] == 3);
        CHECK_FALSE(watch.expired());
    }
    CHECK(eventually([&] { return watch.expired(); }));
}
