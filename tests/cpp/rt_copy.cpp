// SPDX-License-Identifier: MIT
// tests/cpp/rt_copy.cpp: copies and fills of every form and direction, byte for byte.
#include <algorithm>
#include <cstring>

#include "rt_support.hpp"

namespace {

/// A form of copy or fill, run at once or on a stream.
enum class When { Now, OnStream };

struct OnEither {
    TestStream stream;
    template <class Now, class OnStream>
    void run(When when, Now now, OnStream on_stream) {
        CHECK((when == When::Now ? now() : on_stream(stream.handle)) == Success);
        CHECK((when == When::Now ? rt::DeviceSynchronize() : rt::StreamSynchronize(stream.handle)) == Success);
    }
};

}  // namespace

TEST_CASE("rt: bytes go in every direction") {
    if (no_device()) return;
    const std::size_t nbytes = MiB + 17;
    OnEither either;
    for (const When when : {When::Now, When::OnStream}) {
        for (const bool explicit_kind : {false, true}) {
            const Bytes bytes = pattern(nbytes, explicit_kind);
            Bytes from = bytes;
            Bytes to(nbytes);
            Bytes last(nbytes);
            const DeviceMemory first(nbytes);
            const DeviceMemory second(nbytes);
            const auto copy = [&](void* dst, const void* src, MemcpyKind kind) {
                if (!explicit_kind) kind = MemcpyKind::Default;
                either.run(
                    when, [&] { return rt::Memcpy(dst, src, nbytes, kind); },
                    [&](rt::Stream_t stream) { return rt::MemcpyAsync(dst, src, nbytes, kind, stream); });
            };
            copy(first.ptr, from.data(), MemcpyKind::HostToDevice);
            copy(second.ptr, first.ptr, MemcpyKind::DeviceToDevice);
            copy(to.data(), second.ptr, MemcpyKind::DeviceToHost);
            copy(last.data(), to.data(), MemcpyKind::HostToHost);
            CHECK(last == bytes);
        }
    }
}

TEST_CASE("rt: a copy that does not fit its allocation is refused and changes nothing") {
    if (no_device()) return;
    const DeviceMemory memory(MiB);
    Bytes plain = pattern(2 * MiB, 1);
    CHECK(rt::Memset(memory.ptr, 0x77, MiB) == Success);
    CHECK(rt::Memcpy(memory.ptr, plain.data(), MiB + 64, MemcpyKind::HostToDevice) == Error_t::InvalidValue);
    CHECK(rt::Memcpy(plain.data(), memory.ptr, MiB + 64, MemcpyKind::DeviceToHost) == Error_t::InvalidValue);
    CHECK(rt::Memset(memory.ptr, 0, MiB + 64) == Error_t::InvalidValue);
    CHECK(contents(memory.ptr, MiB) == Bytes(MiB, 0x77));
    CHECK(plain == pattern(2 * MiB, 1));
    CHECK(rt::PeekAtLastError() == Success);
}

TEST_CASE("rt: a direction that contradicts the pointers is refused") {
    // AMD's runtime goes by the pointers and takes the direction as a hint.
    if (no_device() || rt::BackendId == PORTAMEM_BACKEND_HIP) return;
    const DeviceMemory memory(4096);
    Bytes plain(4096);
    CHECK(rt::Memcpy(plain.data(), memory.ptr, 4096, MemcpyKind::HostToDevice) == Error_t::InvalidValue);
    CHECK(rt::Memcpy(memory.ptr, plain.data(), 4096, MemcpyKind::DeviceToHost) == Error_t::InvalidValue);
    if (!has(rt::DeviceAttr::PageableMemoryAccess)) {
        CHECK(rt::Memset(plain.data(), 1, 4096) == Error_t::InvalidValue);
    }
}

TEST_CASE("rt: rows are copied from pitch to pitch") {
    if (no_device()) return;
    const std::size_t width = 50, height = 20, narrow = 64, wide = 128;
    OnEither either;
    for (const When when : {When::Now, When::OnStream}) {
        const Bytes from = pattern(wide * height, 2);
        Bytes to(narrow * height, 0xee);
        const DeviceMemory memory(wide * height);
        either.run(
            when,
            [&] { return rt::Memcpy2D(memory.ptr, wide, from.data(), wide, width, height, MemcpyKind::HostToDevice); },
            [&](rt::Stream_t stream) {
                return rt::Memcpy2DAsync(memory.ptr, wide, from.data(), wide, width, height, MemcpyKind::HostToDevice,
                                         stream);
            });
        either.run(
            when, [&] { return rt::Memcpy2D(to.data(), narrow, memory.ptr, wide, width, height, MemcpyKind::Default); },
            [&](rt::Stream_t stream) {
                return rt::Memcpy2DAsync(to.data(), narrow, memory.ptr, wide, width, height, MemcpyKind::Default,
                                         stream);
            });
        for (std::size_t y = 0; y < height; ++y) {
            CHECK(std::memcmp(&to[y * narrow], &from[y * wide], width) == 0);
            CHECK(to[y * narrow + width] == 0xee);
        }
    }
}

TEST_CASE("rt: a pitch smaller than its rows is refused") {
    if (no_device()) return;
    const DeviceMemory memory(4096);
    Bytes plain(4096);
    const auto kind = MemcpyKind::Default;
    CHECK(rt::Memcpy2D(memory.ptr, 32, plain.data(), 64, 64, 4, kind) == Error_t::InvalidValue);
    CHECK(rt::Memcpy2D(memory.ptr, 64, plain.data(), 32, 64, 4, kind) == Error_t::InvalidValue);
    CHECK(rt::Memcpy2DAsync(memory.ptr, 32, plain.data(), 64, 64, 4, kind, NullStream) == Error_t::InvalidValue);
    CHECK(rt::Memset2D(memory.ptr, 32, 1, 64, 4) == Error_t::InvalidValue);
    CHECK(rt::Memset2DAsync(memory.ptr, 32, 1, 64, 4, NullStream) == Error_t::InvalidValue);
}

TEST_CASE("rt: a box is copied from place to place") {
    if (no_device()) return;
    const std::size_t pitch = 64, rows = 8, slices = 5;
    const std::size_t nbytes = pitch * rows * slices;
    const rt::Extent extent{30, 4, 3};
    const rt::Pos there{10, 2, 1};
    OnEither either;
    for (const When when : {When::Now, When::OnStream}) {
        const Bytes from = pattern(nbytes, 3);
        const DeviceMemory memory(nbytes);
        CHECK(rt::Memset(memory.ptr, 0xdd, nbytes) == Success);
        CHECK(rt::DeviceSynchronize() == Success);
        rt::Memcpy3DParms box;
        box.src = {const_cast<unsigned char*>(from.data()), pitch, pitch, rows};
        box.dst = {memory.ptr, pitch, pitch, rows};
        box.dst_pos = there;
        box.extent = extent;
        box.kind = MemcpyKind::HostToDevice;
        either.run(
            when, [&] { return rt::Memcpy3D(box); },
            [&](rt::Stream_t stream) { return rt::Memcpy3DAsync(box, stream); });
        Bytes expected(nbytes, 0xdd);
        for (std::size_t z = 0; z < extent.depth; ++z) {
            for (std::size_t y = 0; y < extent.height; ++y) {
                const std::size_t to = ((z + there.z) * rows + y + there.y) * pitch + there.x;
                std::memcpy(&expected[to], &from[(z * rows + y) * pitch], extent.width);
            }
        }
        CHECK(contents(memory.ptr, nbytes) == expected);
        box.src.pitch = 8;
        CHECK(rt::Memcpy3D(box) == Error_t::InvalidValue);
    }
}

TEST_CASE("rt: bytes go from device to device") {
    if (no_device()) return;
    const std::size_t nbytes = MiB;
    const int other = device_count() - 1;
    rt::DeviceState_t saved{};
    const DeviceMemory here(nbytes);
    int own = -1;
    REQUIRE(rt::GetDevice(&own) == Success);
    REQUIRE(rt::PushDevice(other, &saved) == Success);
    void* there = nullptr;
    REQUIRE(rt::Malloc(&there, nbytes) == Success);
    REQUIRE(rt::PopDevice(saved) == Success);
    OnEither either;
    for (const When when : {When::Now, When::OnStream}) {
        const Bytes bytes = pattern(nbytes, when == When::Now ? 4 : 5);
        REQUIRE(rt::Memcpy(here.ptr, bytes.data(), nbytes, MemcpyKind::HostToDevice) == Success);
        // The end of a copy from pageable memory may still be on its way, and the stream here waits for no other.
        REQUIRE(rt::DeviceSynchronize() == Success);
        either.run(
            when, [&] { return rt::MemcpyPeer(there, other, here.ptr, own, nbytes); },
            [&](rt::Stream_t stream) { return rt::MemcpyPeerAsync(there, other, here.ptr, own, nbytes, stream); });
        CHECK(contents(there, nbytes) == bytes);
    }
    CHECK(rt::MemcpyPeer(there, device_count(), here.ptr, own, nbytes) == Error_t::InvalidDevice);
    CHECK(rt::Free(there) == Success);
}

TEST_CASE("rt: memory is filled with the low 8 bits of a value") {
    if (no_device()) return;
    const std::size_t nbytes = 100000;
    const DeviceMemory memory(nbytes);
    OnEither either;
    for (const When when : {When::Now, When::OnStream}) {
        for (const int value : {0, 0xab, 0x1ff, -1}) {
            either.run(
                when, [&] { return rt::Memset(memory.ptr, value, nbytes); },
                [&](rt::Stream_t stream) { return rt::MemsetAsync(memory.ptr, value, nbytes, stream); });
            CHECK(contents(memory.ptr, nbytes) == Bytes(nbytes, static_cast<unsigned char>(value)));
        }
    }
}

TEST_CASE("rt: rows are filled and what lies between them is not") {
    if (no_device()) return;
    const std::size_t pitch = 256, width = 100, height = 9;
    const DeviceMemory memory(pitch * height);
    OnEither either;
    for (const When when : {When::Now, When::OnStream}) {
        CHECK(rt::Memset(memory.ptr, 0x11, pitch * height) == Success);
        CHECK(rt::DeviceSynchronize() == Success);
        either.run(
            when, [&] { return rt::Memset2D(memory.ptr, pitch, 0x22, width, height); },
            [&](rt::Stream_t stream) { return rt::Memset2DAsync(memory.ptr, pitch, 0x22, width, height, stream); });
        Bytes expected(pitch * height, 0x11);
        for (std::size_t y = 0; y < height; ++y) {
            std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(y * pitch), width, 0x22);
        }
        CHECK(contents(memory.ptr, pitch * height) == expected);
    }
}
