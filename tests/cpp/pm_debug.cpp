// SPDX-License-Identifier: MIT
// tests/cpp/pm_debug.cpp: redzones and poison. They are there with PORTAMEM_DEBUG=1 only: so is most of this.
#include <utility>
#include <vector>

#include "pm_support.hpp"

namespace {

bool is_off() { return no_device() || !pm::detail::debug_on; }

// Writes a byte anywhere, as a kernel out of bounds would.
void poke(void* at, unsigned char value) { REQUIRE(rt::Memcpy(at, &value, 1, MemcpyKind::Default) == Success); }

unsigned char peek(const void* at) { return contents(at, 1).at(0); }

char* behind(const pm::Buffer& buffer) { return static_cast<char*>(buffer.ptr()) + buffer.nbytes(); }

/// Notes the memory that it gives, and the memory that another stream uses.
class Watched : public pm::ResourceAdaptor {
  public:
    using Memory = std::vector<std::pair<void*, std::size_t>>;

    explicit Watched(Resource upstream) : pm::ResourceAdaptor(std::move(upstream)) {}
    Memory given;
    Memory used;

  protected:
    void* take(std::size_t nbytes, const StreamPtr& stream, pm::AllocateOptions options) override {
        void* const ptr = pm::ResourceAdaptor::take(nbytes, stream, options);
        given.emplace_back(ptr, nbytes);
        return ptr;
    }
    void do_note_use(void* ptr, std::size_t nbytes, const pm::Stream& stream) override {
        used.emplace_back(ptr, nbytes);
        pm::ResourceAdaptor::do_note_use(ptr, nbytes, stream);
    }
};

}  // namespace

TEST_CASE("pm debug: off, nothing is added") {
    if (no_device() || pm::detail::debug_on) return;
    for (const Resource& resource : every_resource()) {
        const pm::Buffer buffer(resource, 1000);
        CHECK(resource->live_bytes() == 1000);
    }
}

TEST_CASE("pm debug: a write outside of an allocation is found when it is freed, and the memory goes back then") {
    if (is_off()) return;
    for (const Resource& resource : every_resource()) {
        CAPTURE(std::string(pm::to_string(resource->kind())));
        const auto stream = pm::Stream::create(0);
        for (const std::size_t nbytes : {std::size_t{1}, std::size_t{1000}, std::size_t{4096}}) {
            pm::Buffer good(resource, nbytes, stream);
            pm::Buffer bad(resource, nbytes, stream);
            pm::Buffer worse(resource, nbytes, stream);
            stream->synchronize();
            CHECK(reinterpret_cast<std::uintptr_t>(good.ptr()) % 256 == 0);
            CHECK(peek(good.ptr()) == PORTAMEM_DEBUG_FRESH_BYTE);
            put(good, 1);
            poke(behind(bad), 0);
            poke(static_cast<char*>(worse.ptr()) - 2, 0);
            CHECK(get(good) == pattern(nbytes, 1));
            good.close();
            const std::string text = refusal<pm::Error>([&] { bad.close(); });
            CHECK(contains(text, "byte 1 behind its end, of " + std::to_string(nbytes) + " bytes"));
            CHECK(contains(text, "allocated at"));
            CHECK(contains(refusal<pm::Error>([&] { worse.close(); }), "byte 2 before its start"));
            CHECK(resource->live_buffers() == 2);
            bad.close();
            worse.close();
            CHECK(resource->live_buffers() == 0);
        }
    }
    settle();
}

TEST_CASE("pm debug: double frees, other resources and other sizes are refused in words") {
    if (is_off()) return;
    const auto stream = pm::Stream::create(0);
    for (const Resource& resource : every_resource()) {
        void* kept = resource->allocate(64, stream);
        void* ptr = resource->allocate(64, stream);
        const Resource other = pinned_resource();
        CHECK(
            contains(refusal<std::invalid_argument>([&] { other->deallocate(ptr, 64, stream); }), "another resource"));
        CHECK(contains(refusal<std::invalid_argument>([&] { resource->deallocate(ptr, 65, stream); }), "not its own"));
        resource->deallocate(ptr, 64, stream);
        const std::string text = refusal<std::invalid_argument>([&] { resource->deallocate(ptr, 64, stream); });
        CHECK(contains(text, "freed twice: 64 bytes"));
        CHECK(contains(text, "freed before at"));
        resource->deallocate(kept, 64, stream);
        resource->close();
    }
}

TEST_CASE("pm debug: blocks of composed resources have redzones of their own") {
    if (is_off()) return;
    for (const Resource& upstream : every_resource()) {
        CAPTURE(std::string(pm::to_string(upstream->kind())));
        for (const Resource& resource : {Resource(std::make_shared<pm::FixedSizeMemoryResource>(upstream, 1000, 4)),
                                         Resource(std::make_shared<pm::MonotonicMemoryResource>(upstream)),
                                         Resource(std::make_shared<pm::LimitingAdaptor>(upstream, 1 << 20))}) {
            pm::Buffer first(resource, 1000);
            pm::Buffer second(resource, 1000);
            put(second, 3);
            poke(behind(first), 7);
            CHECK(contains(refusal<pm::Error>([&] { first.close(); }), "byte 1 behind"));
            CHECK(get(second) == pattern(1000, 3));
            first.close();
            second.close();
            resource->close();
        }
        CHECK(upstream->live_buffers() == 0);
    }
}

TEST_CASE("pm debug: freed memory is poisoned") {
    if (is_off()) return;
    const auto blocks = std::make_shared<pm::FixedSizeMemoryResource>(pinned_resource(), 1000, 4);
    const pm::Buffer kept(blocks, 1000);
    pm::Buffer buffer(blocks, 1000);
    const void* ptr = buffer.ptr();
    put(buffer, 5);
    buffer.close();
    CHECK(contents(ptr, 1000) == Bytes(1000, PORTAMEM_DEBUG_FREED_BYTE));
}

TEST_CASE("pm debug: a free whose stream takes long is looked at later") {
    if (is_off() || !has_pools()) return;
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto stream = pm::Stream::create(0);
    pm::Buffer buffer(pool, 1000, stream);
    poke(behind(buffer), 0);
    {
        const Gate gate(stream);
        buffer.close();  // after two seconds
        CHECK_FALSE(gate.is_open());
    }
    stream->synchronize();
    CHECK(pool->live_buffers() == 0);
}

TEST_CASE("pm debug: a large alignment is kept") {
    if (is_off()) return;
    const auto arena = std::make_shared<pm::MonotonicMemoryResource>(pinned_resource());
    pm::Buffer buffer(arena, 100, nullptr, 4096);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.ptr()) % 4096 == 0);
    poke(static_cast<char*>(buffer.ptr()) - 256, 0);
    CHECK(contains(refusal<pm::Error>([&] { buffer.close(); }), "byte 256 before"));
    CHECK_THROWS_AS(pm::Buffer(arena, 100, nullptr, 100), std::invalid_argument);
}

TEST_CASE("pm debug: a use of memory between redzones is told to the resource that gave the memory, by its address") {
    if (is_off()) return;
    const auto none = std::make_shared<pm::LimitingAdaptor>(device_resource(), 0);
    const auto second = std::make_shared<Watched>(device_resource());
    const auto first = std::make_shared<Watched>(none);
    const auto limited = std::make_shared<pm::LimitingAdaptor>(second, 1 << 20);
    const auto other = pm::Stream::create(0);
    for (const Resource& resource : {Resource(pm::FallbackAdaptor::create(first, second)), Resource(limited)}) {
        second->given.clear();
        second->used.clear();
        const pm::Buffer buffer(resource, 1000);
        REQUIRE(second->given.size() == 1);
        CHECK(second->given.front().first != buffer.ptr());
        buffer.record_stream(other);
        CHECK(second->used == second->given);
        resource->note_use(buffer.ptr(), buffer.nbytes(), *other);
        CHECK(second->used.size() == 2);
    }
    CHECK(first->used.empty());
}
