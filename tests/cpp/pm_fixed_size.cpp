// SPDX-License-Identifier: MIT
// tests/cpp/pm_fixed_size.cpp: equal blocks of another resource's memory.
#include <set>
#include <thread>
#include <vector>

#include "pm_support.hpp"

using FixedSize = pm::FixedSizeMemoryResource;

namespace {

constexpr std::size_t kBlock = 4096;

std::shared_ptr<FixedSize> blocks_of(const Resource& upstream, std::size_t per_chunk = 4) {
    return std::make_shared<FixedSize>(upstream, kBlock, per_chunk);
}

// Plain device memory that only the device reaches; an APU's host reaches all of it.
bool has_device_only() { return !device_resource()->is_host_accessible(); }

}  // namespace

TEST_CASE("pm fixed size: it is as its upstream is, stream-ordered where only devices reach it") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        const auto blocks = blocks_of(upstream);
        CHECK(blocks->kind() == upstream->kind());
        CHECK(blocks->device_id() == upstream->device_id());
        CHECK(blocks->is_host_accessible() == upstream->is_host_accessible());
        CHECK(blocks->is_stream_ordered() == !upstream->is_host_accessible());
        CHECK(blocks->upstream() == upstream);
        CHECK(upstream->live_buffers() == 0);  // nothing is taken before it is needed
    }
}

TEST_CASE("pm fixed size: blocks hold what is written to them, of every upstream") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        CAPTURE(std::string(pm::to_string(upstream->kind())));
        const auto blocks = blocks_of(upstream, 3);
        std::vector<pm::Buffer> all;
        std::set<void*> addresses;
        for (unsigned i = 0; i < 7; ++i) {
            all.emplace_back(blocks, kBlock - i);
            CHECK(reinterpret_cast<std::uintptr_t>(all.back().ptr()) % 256 == 0);
            addresses.insert(all.back().ptr());
            put(all.back(), i);
        }
        CHECK(addresses.size() == 7);
        for (unsigned i = 0; i < 7; ++i) CHECK(get(all[i]) == pattern(kBlock - i, i));
        CHECK(blocks->live_buffers() == 7);
        CHECK(blocks->live_bytes() == 7 * kBlock - 21);
        CHECK(upstream->live_buffers() == 3);
        CHECK(blocks->reserved() == 9 * kBlock);
        CHECK(blocks->cached() == 2 * kBlock);
        all.clear();
        CHECK(blocks->cached() == 9 * kBlock);
        blocks->close();
        CHECK(upstream->live_buffers() == 0);
        CHECK(blocks->reserved() == 0);
    }
}

TEST_CASE("pm fixed size: what does not fit a block is refused in words") {
    if (no_device()) return;
    const Resource upstream = device_resource();
    CHECK(contains(refusal<std::invalid_argument>([&] { FixedSize(upstream, 0); }), "at least 1 byte"));
    CHECK(contains(refusal<std::invalid_argument>([&] { FixedSize(upstream, ~std::size_t{0}); }), "larger than any"));
    CHECK(contains(refusal<std::invalid_argument>([&] { FixedSize(upstream, 1 << 20, ~std::size_t{0} >> 8); }),
                   "larger"));
    CHECK(contains(refusal<std::invalid_argument>([] { FixedSize(nullptr, 1); }), "no upstream"));
    const Resource closed = device_resource();
    closed->close();
    CHECK(contains(refusal<std::invalid_argument>([&] { FixedSize(closed, 1); }), "closed"));
    const auto blocks = blocks_of(upstream);
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(blocks, kBlock + 1); }), "4096 bytes, not 4097"));
    CHECK(contains(refusal<std::invalid_argument>([&] { pm::Buffer(blocks, 1, nullptr, 512); }), "aligns to 256"));
    CHECK(blocks->live_buffers() == 0);
    const pm::Buffer none(blocks, 0);
    CHECK(none.ptr() == nullptr);
    CHECK(blocks->reserved() == 0);
}

TEST_CASE("pm fixed size: what is not a block that is out cannot be given back") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const auto blocks = blocks_of(pinned_resource());
    void* kept = blocks->allocate(kBlock, stream);
    void* ptr = blocks->allocate(100, stream);
    int elsewhere = 0;
    CHECK(contains(refusal<std::invalid_argument>([&] { blocks->deallocate(&elsewhere, 4, stream); }), "not a block"));
    void* inner = static_cast<char*>(ptr) + 8;
    CHECK(contains(refusal<std::invalid_argument>([&] { blocks->deallocate(inner, 4, stream); }), "not a block"));
    CHECK(contains(refusal<std::invalid_argument>([&] { blocks->deallocate(ptr, kBlock + 1, stream); }), "not 4097"));
    blocks->deallocate(ptr, 100, stream);
    CHECK(contains(refusal<std::invalid_argument>([&] { blocks->deallocate(ptr, 100, stream); }), "free already"));
    CHECK(blocks->live_buffers() == 1);
    blocks->deallocate(kept, kBlock, stream);
    blocks->close();
}

TEST_CASE("pm fixed size: a block freed on a stream is that stream's at once, and another's behind an event") {
    if (no_device() || !has_device_only()) return;
    const auto blocks = blocks_of(device_resource(), 1);
    const auto first = pm::Stream::create(0);
    const auto second = pm::Stream::create(0);
    const pm::Buffer before(pinned_resource(), kBlock);
    const pm::Buffer after(pinned_resource(), kBlock);
    put(before, 7);
    const Gate gate(first);
    pm::Buffer buffer(blocks, kBlock, first);
    void* const ptr = buffer.ptr();
    pm::copy(buffer, before, first);
    buffer.close();
    pm::Buffer again(blocks, kBlock, first);
    CHECK(again.ptr() == ptr);
    pm::copy(after, again, first);
    again.close();
    pm::Buffer stolen(blocks, kBlock, second);  // waits for nothing on the host
    CHECK(stolen.ptr() == ptr);
    CHECK(blocks->reserved() == kBlock);
    CHECK_FALSE(gate.is_open());
    gate.open();
    first->synchronize();
    CHECK(get(after) == pattern(kBlock, 7));
    stolen.close();
}

TEST_CASE("pm fixed size: the thief's work is behind the donor's") {
    if (no_device() || !has_device_only()) return;
    const auto blocks = blocks_of(device_resource(), 1);
    const auto donor = pm::Stream::create(0);
    const auto thief = pm::Stream::create(0);
    const pm::Buffer out(pinned_resource(), kBlock);
    const Gate gate(donor);
    pm::Buffer buffer(blocks, kBlock, donor);
    pm::fill(pm::Span::of(buffer), 1, donor);
    buffer.close();
    pm::Buffer stolen(blocks, kBlock, thief);
    pm::fill(pm::Span::of(stolen), 2, thief);
    CHECK_FALSE(thief->query());
    gate.open();
    pm::copy(out, stolen, thief);
    thief->synchronize();
    CHECK(get(out) == Bytes(kBlock, 2));
}

TEST_CASE("pm fixed size: memory that the host reaches waits for the work that was there at its free") {
    if (no_device()) return;
    const auto blocks = blocks_of(pinned_resource(), 1);
    const auto stream = pm::Stream::create(0);
    const pm::Buffer out(device_resource(), kBlock);
    const Gate gate(stream);
    pm::Buffer buffer(blocks, kBlock, stream);
    void* const ptr = buffer.ptr();
    const Bytes bytes = pattern(kBlock, 3);
    std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(ptr));
    pm::copy(out, buffer, stream);
    void* const raw = buffer.release();
    blocks->deallocate(raw, kBlock, stream);  // at once: the copy is still held
    CHECK_FALSE(gate.is_open());
    pm::Buffer other(blocks, kBlock, stream);
    CHECK(other.ptr() != ptr);
    std::fill_n(static_cast<unsigned char*>(other.ptr()), kBlock, std::uint8_t{9});
    gate.open();
    stream->synchronize();
    CHECK(get(out) == bytes);
    const pm::Buffer again(blocks, kBlock, stream);
    CHECK(again.ptr() == ptr);
    CHECK(blocks->reserved() == 2 * kBlock);
}

TEST_CASE("pm fixed size: short of memory, it takes smaller chunks and waits for what was freed") {
    if (no_device()) return;
    const auto limited = std::make_shared<pm::LimitingAdaptor>(pinned_resource(), 3 * kBlock);
    const auto blocks = blocks_of(limited, 8);
    const auto stream = pm::Stream::create(0);
    std::vector<pm::Buffer> all;
    for (int i = 0; i < 3; ++i) all.emplace_back(blocks, kBlock, stream);
    CHECK(contains(refusal<pm::OutOfMemory>([&] { pm::Buffer(blocks, 1, stream); }), "the limit is 12 KiB"));
    CHECK(blocks->live_buffers() == 3);
    const Gate gate(stream);
    void* const ptr = all.back().ptr();
    all.pop_back();
    gate.open_soon();
    const pm::Buffer waited(blocks, kBlock, stream);
    CHECK(gate.is_open());
    CHECK(waited.ptr() == ptr);
}

TEST_CASE("pm fixed size: what its upstream has left is blocks to the last byte") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    for (const std::size_t nbytes : {std::size_t{100}, std::size_t{1000}, kBlock}) {
        const std::size_t stride = (nbytes + 255) / 256 * 256;
        const auto limited = std::make_shared<pm::LimitingAdaptor>(device_resource(), 2 * stride + nbytes);
        const auto blocks = std::make_shared<FixedSize>(limited, nbytes);
        std::vector<void*> all;
        for (int i = 0; i < 3; ++i) all.push_back(blocks->allocate(nbytes, stream));
        CHECK_THROWS_AS((void)blocks->allocate(nbytes, stream), pm::OutOfMemory);
        for (void* ptr : all) blocks->deallocate(ptr, nbytes, stream);
        blocks->close();
        CHECK(limited->allocated() == 0);
    }
}

TEST_CASE("pm fixed size: trim gives back chunks without a live block, behind their last use") {
    if (no_device()) return;
    for (const Resource& upstream : every_resource()) {
        CAPTURE(std::string(pm::to_string(upstream->kind())));
        const auto blocks = blocks_of(upstream, 2);
        const auto stream = pm::Stream::create(0);
        const auto other = pm::Stream::create(0);
        std::vector<pm::Buffer> all;
        for (int i = 0; i < 6; ++i) all.emplace_back(blocks, kBlock, i % 2 == 0 ? stream : other);
        for (unsigned i = 0; i < 6; ++i) pm::fill(pm::Span::of(all[i]), 5, all[i].stream());
        stream->synchronize();
        other->synchronize();
        put(all[0], 77);
        all.erase(all.begin() + 1, all.end());
        blocks->trim(3 * kBlock);
        CHECK(upstream->live_buffers() == 1);
        CHECK(blocks->reserved() == 2 * kBlock);
        CHECK(get(all[0]) == pattern(kBlock, 77));
        blocks->trim();
        CHECK(upstream->live_buffers() == 1);
        const pm::Buffer more(blocks, kBlock, other);
        put(more, 78);
        CHECK(get(all[0]) == pattern(kBlock, 77));
        all.clear();
        CHECK(get(more) == pattern(kBlock, 78));
    }
    settle();
}

TEST_CASE("pm fixed size: streams may be gone before their blocks are used again") {
    if (no_device()) return;
    for (const Resource& upstream : {device_resource(), pinned_resource()}) {
        const auto blocks = blocks_of(upstream, 1);
        for (unsigned i = 0; i < 100; ++i) {
            const auto stream = pm::Stream::create(0);
            pm::Buffer buffer(blocks, kBlock, stream);
            pm::fill(pm::Span::of(buffer), static_cast<unsigned char>(i), stream);
            if (i % 3 == 0) stream->synchronize();
            buffer.close();
            if (i % 2 == 0) stream->close();
        }
        pm::Device(0).synchronize();
        const pm::Buffer buffer(blocks, kBlock);
        put(buffer, 1);
        CHECK(get(buffer) == pattern(kBlock, 1));
        if (blocks->is_stream_ordered()) CHECK(blocks->reserved() == kBlock);
    }
}

TEST_CASE("pm fixed size: a raw handle without an owner is marked at its free") {
    if (no_device()) return;
    for (const Resource& upstream : {device_resource(), pinned_resource()}) {
        const auto blocks = blocks_of(upstream, 1);
        const auto real = pm::Stream::create(0);
        const pm::Buffer out(pinned_resource(), kBlock);
        void* ptr = nullptr;
        {
            const auto raw = pm::Stream::from_handle(real->handle(), 0);
            CHECK_FALSE(raw->can_be_marked_later());
            pm::Buffer buffer(blocks, kBlock, raw);
            ptr = buffer.ptr();
            pm::fill(pm::Span::of(buffer), 1, raw);
            buffer.close();
        }
        real->synchronize();
        real->close();
        const auto next = pm::Stream::create(0);
        const pm::Buffer again(blocks, kBlock, next);
        CHECK(again.ptr() == ptr);
        pm::fill(pm::Span::of(again), 2, next);
        pm::copy(out, again, next);
        next->synchronize();
        CHECK(get(out) == Bytes(kBlock, 2));
    }
}

TEST_CASE("pm fixed size: under capture a block that is at hand is given, and nothing else is done") {
    if (no_device() || !has_device_only()) return;
    const auto blocks = blocks_of(device_resource(), 2);
    const auto stream = pm::Stream::create(0);
    { const pm::Buffer warm(blocks, kBlock, stream); }
    stream->begin_capture(rt::StreamCaptureMode::Global);
    void* first = blocks->allocate(kBlock, stream);
    void* second = blocks->allocate(kBlock, stream);
    CHECK(contains(refusal<std::invalid_argument>([&] { blocks->allocate(kBlock, stream); }), "captured"));
    CHECK(stream->capture_status() == rt::StreamCaptureStatus::Active);
    blocks->deallocate(second, kBlock, stream);
    CHECK(contains(refusal<std::invalid_argument>([&] { blocks->trim(); }), "captured"));
    stream->end_capture();
    blocks->deallocate(first, kBlock, stream);
    CHECK(blocks->live_buffers() == 0);
    blocks->close();
}

TEST_CASE("pm fixed size: many threads and streams never share a live block") {
    if (no_device()) return;
    for (const Resource& upstream : {device_resource(), pinned_resource()}) {
        const auto blocks = blocks_of(upstream, 4);
        std::atomic<int> wrong{0};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                const auto stream = pm::Stream::create(0);
                const pm::Buffer out(pinned_resource(), kBlock);
                for (unsigned i = 0; i < 50; ++i) {
                    const auto value = static_cast<unsigned char>(t * 50 + i);
                    pm::Buffer one(blocks, kBlock, stream);
                    pm::Buffer two(blocks, kBlock, stream);
                    pm::fill(pm::Span::of(one), value, stream);
                    pm::fill(pm::Span::of(two), static_cast<unsigned char>(~value), stream);
                    pm::copy(out, one, stream);
                    stream->synchronize();
                    if (get(out) != Bytes(kBlock, value)) ++wrong;
                    if (i % 10 == 9) blocks->trim();
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(wrong == 0);
        CHECK(blocks->live_buffers() == 0);
    }
    settle();
}
