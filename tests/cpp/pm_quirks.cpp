// SPDX-License-Identifier: MIT
// tests/cpp/pm_quirks.cpp: the table of known faults, its switches, and the policies that do something.
#include <atomic>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "pm_support.hpp"

namespace {

constexpr int kHip52 = 50221153;
constexpr int kHip57 = 50731921;
constexpr int kHip61 = 60140091;
constexpr int kHip72 = 70226015;

bool applies(const char* name, portamem_backend backend, const char* arch, int runtime) {
    return pm::detail::applies(pm::detail::quirk_called(name), backend, arch, runtime);
}

/// A quirk switched on for a scope.
struct SwitchedOn {
    std::string name;
    std::optional<bool> before;
    explicit SwitchedOn(const char* quirk) : name(quirk), before(pm::set_quirk(name, true)) {}
    ~SwitchedOn() { pm::set_quirk(name, before); }
    SwitchedOn(const SwitchedOn&) = delete;
    SwitchedOn& operator=(const SwitchedOn&) = delete;
};

}  // namespace

TEST_CASE("pm quirks: every entry is whole") {
    std::set<std::string> names;
    for (const pm::Quirk& quirk : pm::kQuirks) {
        CHECK(names.insert(quirk.name).second);
        CHECK(std::strlen(quirk.arch) > 0);
        CHECK(std::strlen(quirk.about) > 20);
        CHECK(std::strchr(quirk.thread, '#') != nullptr);
        CHECK((quirk.fixed == 0 || quirk.fixed > quirk.first));
    }
}

TEST_CASE("pm quirks: an entry is of a backend, an architecture and a range of runtimes") {
    constexpr auto hip = PORTAMEM_BACKEND_HIP;
    CHECK(applies("free_on_other_stream", hip, "gfx90a:sramecc+:xnack-", kHip52));
    CHECK(applies("free_on_other_stream", hip, "gfx1030", kHip72));
    CHECK_FALSE(applies("free_on_other_stream", hip, "sm_90", kHip52));
    CHECK_FALSE(applies("free_on_other_stream", PORTAMEM_BACKEND_CUDA, "sm_90", 13000));
    CHECK_FALSE(applies("free_on_other_stream", PORTAMEM_BACKEND_HOST, "host", 10));
    CHECK_FALSE(applies("tiny_pool_allocation", hip, "gfx90a", kHip52));
    CHECK(applies("tiny_pool_allocation", hip, "gfx90a", kHip57));
    CHECK_FALSE(applies("tiny_pool_allocation", hip, "gfx90a", kHip61));
    CHECK_FALSE(applies("pitched_copy_direction", hip, "gfx90a", kHip52));
    CHECK(applies("pitched_copy_direction", hip, "gfx90a", kHip57));
    CHECK_FALSE(applies("pitched_copy_direction", hip, "gfx90a", kHip61));
    CHECK(applies("cached_blocks_fit_badly", hip, "gfx942", kHip61));
    CHECK_FALSE(applies("cached_blocks_fit_badly", hip, "gfx942", kHip72));
    CHECK(applies("peer_copy_of_pool_memory", PORTAMEM_BACKEND_CUDA, "sm_75", 13020));
    CHECK_FALSE(applies("peer_copy_of_pool_memory", PORTAMEM_BACKEND_CUDA, "sm_75", 13010));
    CHECK_FALSE(applies("peer_copy_of_pool_memory", PORTAMEM_BACKEND_CUDA, "sm_90", 13020));
}

TEST_CASE("pm quirks: switches are read, and anything else is refused in words") {
    auto chosen = pm::detail::read_quirk_choices("free_on_other_stream=off,tiny_pool_allocation=on,");
    for (const pm::Quirk& quirk : pm::kQuirks) {
        const std::string name = quirk.name;
        std::optional<bool> expected;
        if (name == "free_on_other_stream") expected = false;
        if (name == "tiny_pool_allocation") expected = true;
        CHECK(chosen.of(quirk) == expected);
    }
    CHECK(pm::detail::read_quirk_choices("").empty());
    const auto refused = [](const char* text) {
        return refusal<std::invalid_argument>([&] { (void)pm::detail::read_quirk_choices(text); });
    };
    CHECK(contains(refused("no_such=off"), "free_on_other_stream"));
    CHECK(contains(refused("free_on_other_stream"), "name=on or name=off"));
    CHECK(contains(refused("free_on_other_stream=maybe"), "name=on or name=off"));
    CHECK(contains(refused("pinned_flags_drop_coherence=off"), "cannot be switched"));
    CHECK(contains(refusal<std::invalid_argument>([] { pm::set_quirk("no_such", true); }), "there is no quirk"));
}

TEST_CASE("pm quirks: a switch holds until it is taken back") {
    if (no_device()) return;
    const pm::Device device(0);
    const auto before = pm::quirks(device).size();
    {
        const SwitchedOn tiny("tiny_pool_allocation");
        bool seen = false;
        for (const auto& each : pm::quirks(device)) {
            seen = seen || (each.quirk->name == tiny.name && each.active);
        }
        CHECK(seen);
        CHECK(pm::quirk_policy_applies(pm::QuirkPolicy::AtLeastEightBytes, device));
        CHECK(pm::set_quirk(tiny.name, false) == true);
        CHECK_FALSE(pm::quirk_policy_applies(pm::QuirkPolicy::AtLeastEightBytes, device));
    }
    CHECK(pm::quirks(device).size() == before);
}

TEST_CASE("pm quirks: memory goes back on its own stream, behind the one that was named") {
    if (no_device() || !has_pools()) return;
    const SwitchedOn policy("free_on_other_stream");
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto mine = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    pm::Buffer buffer(pool, MiB, mine);
    pm::fill(pm::Span::of(buffer), 5, mine);
    mine->synchronize();
    {
        const Gate gate(other);
        buffer.close(other);
        CHECK_FALSE(mine->query());  // its free waits for the other stream
        gate.open();
    }
    mine->synchronize();
    CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) == 0);
    pm::Buffer again(pool, MiB, mine);
    put(again, 9);
    CHECK(get(again) == pattern(MiB, 9));
}

TEST_CASE("pm quirks: without the policy the allocating stream is left alone") {
    if (no_device() || !has_pools()) return;
    const auto before = pm::set_quirk("free_on_other_stream", false);
    const auto pool = pm::AsyncMemoryResource::create(0);
    pm::set_quirk("free_on_other_stream", before);
    const auto mine = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    pm::Buffer buffer(pool, MiB, mine);
    mine->synchronize();
    const Gate gate(other);
    buffer.close(other);
    CHECK(eventually([&] { return mine->query(); }));
    CHECK_FALSE(other->query());
    gate.open();
    other->synchronize();
}

TEST_CASE("pm quirks: under the policy every way of giving back works") {
    if (no_device() || !has_pools()) return;
    const SwitchedOn policy("free_on_other_stream");
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto mine = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    void* ptr = pool->allocate(4096, mine);
    pool->deallocate(ptr, 4096, other);
    ptr = pool->allocate(4096, mine);
    pool->deallocate(ptr, 4096, mine);
    ptr = pool->allocate(0, mine);
    pool->deallocate(ptr, 0, other);
    const auto alias = pm::Stream::from_handle(mine->handle(), 0, mine);  // the same stream, another object
    ptr = pool->allocate(4096, mine);
    pool->deallocate(ptr, 4096, alias);
    {
        const auto gone = pm::Stream::create(0);
        ptr = pool->allocate(4096, gone);
        gone->close();
        pool->deallocate(ptr, 4096, other);  // its stream takes no more work
    }
    { const pm::Buffer dropped(pool, 4096, mine); }
    mine->synchronize();
    other->synchronize();
    CHECK(pool->live_buffers() == 0);
    CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) == 0);
    pool->close();
}

TEST_CASE("pm quirks: the stream that memory came from may be closed while it is freed on another") {
    if (no_device() || !has_pools()) return;
    const SwitchedOn policy("free_on_other_stream");
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto other = pm::Stream::create(0);
    for (int turn = 0; turn < 500; ++turn) {
        const auto mine = pm::Stream::create(0);
        void* const ptr = pool->allocate(4096, mine);
        other->wait(*mine);
        std::atomic<bool> goes{false};
        std::thread closer([&] {
            goes = true;
            mine->close();
        });
        while (!goes) std::this_thread::yield();
        CHECK_NOTHROW(pool->deallocate(ptr, 4096, other));
        closer.join();
    }
    other->synchronize();
    CHECK(pool->live_buffers() == 0);
    CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) == 0);
    pool->close();
}

TEST_CASE("pm quirks: a free that is refused can be tried again") {
    if (no_device() || !has_pools()) return;
    const SwitchedOn policy("free_on_other_stream");
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto mine = pm::Stream::create(0);
    const auto other = pm::Stream::create(0);
    void* ptr = pool->allocate(4096, mine);
    mine->begin_capture(rt::StreamCaptureMode::Relaxed);
    CHECK_THROWS_AS(pool->deallocate(ptr, 4096, mine), std::invalid_argument);
    pool->deallocate(ptr, 4096, other);  // its stream is captured: the other takes it
    CHECK(mine->capture_status() == rt::StreamCaptureStatus::Active);
    mine->end_capture();
    other->synchronize();
    CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) == 0);
}

TEST_CASE("pm quirks: tiny requests take eight bytes, and are still tiny to the user") {
    if (no_device() || !has_pools()) return;
    const SwitchedOn policy("tiny_pool_allocation");
    const auto pool = pm::AsyncMemoryResource::create(0);
    const auto stream = pm::Stream::create(0);
    for (std::size_t nbytes = 1; nbytes <= 9; ++nbytes) {
        const pm::Buffer buffer(pool, nbytes, stream);
        CHECK(buffer.nbytes() == nbytes);
        CHECK(pool->live_bytes() == nbytes);
        CHECK(pool->get(rt::MemPoolAttr::UsedMemCurrent) >= 8);
        put(buffer, 1);
        CHECK(get(buffer) == pattern(nbytes, 1));
    }
    stream->synchronize();
}

TEST_CASE("pm quirks: rows and boxes are told their direction where the policy says so, whoever owns the memory") {
    if (no_device()) return;
    using rt::MemcpyKind;
    const auto kind = [](const pm::Span& dst, const pm::Span& src) { return pm::detail::kind_of_rows(dst, src, 0); };
    const pm::Buffer near(std::make_shared<pm::PinnedMemoryResource>(0), 4096);
    const pm::Buffer far(std::make_shared<pm::DeviceMemoryResource>(0), 4096);
    const pm::Buffer other(std::make_shared<pm::DeviceMemoryResource>(0), 4096);
    unsigned char plain[16] = {};
    const auto device = [&] { return pm::Span::of(far); };
    const auto host = [&] { return pm::Span::of(near); };
    const auto before = pm::set_quirk("pitched_copy_direction", false);
    CHECK(kind(device(), host()) == MemcpyKind::Default);
    pm::set_quirk("pitched_copy_direction", before);
    const SwitchedOn policy("pitched_copy_direction");
    CHECK(kind(device(), host()) == MemcpyKind::HostToDevice);
    CHECK(kind(host(), device()) == MemcpyKind::DeviceToHost);
    CHECK(kind(device(), pm::Span::of(other)) == MemcpyKind::DeviceToDevice);
    CHECK(kind(host(), pm::Span::host(plain, sizeof plain)) == MemcpyKind::HostToHost);
    CHECK(kind(pm::Span::host(plain, sizeof plain), device()) == MemcpyKind::DeviceToHost);
    // Device memory that the host reaches, or that is another's, is device memory all the same.
    CHECK(kind(pm::Span::host(far.ptr(), 16), pm::Span::of(other)) == MemcpyKind::DeviceToDevice);
    if (!has_managed()) return;
    const pm::Buffer managed(std::make_shared<pm::ManagedMemoryResource>(0), 4096);
    CHECK(kind(pm::Span::of(managed), device()) == MemcpyKind::DeviceToHost);
    CHECK(kind(device(), pm::Span::of(managed)) == MemcpyKind::HostToDevice);
}
