// SPDX-License-Identifier: MIT
// tests/cpp/pm_copy_box.cpp: copies of boxes.
#include "pm_support.hpp"

namespace {

// The box moved by hand.
void move_box(Bytes& target, const Bytes& source, const pm::Box3D& box) {
    for (std::size_t z = 0; z < box.depth; ++z) {
        for (std::size_t y = 0; y < box.height; ++y) {
            const auto to = static_cast<std::ptrdiff_t>((z * box.dst_rows + y) * box.dst_pitch);
            const auto from = static_cast<std::ptrdiff_t>((z * box.src_rows + y) * box.src_pitch);
            std::copy_n(source.begin() + from, box.width, target.begin() + to);
        }
    }
}

// True where two boxes of one layout share a byte. It looks byte by byte.
bool share_a_byte(std::size_t distance, const pm::Box3D& box) {
    std::vector<bool> touched(distance + box.depth * box.dst_rows * box.dst_pitch);
    for (const std::size_t start : {std::size_t{0}, distance}) {
        for (std::size_t z = 0; z < box.depth; ++z) {
            for (std::size_t y = 0; y < box.height; ++y) {
                for (std::size_t x = 0; x < box.width; ++x) {
                    auto byte = touched[start + (z * box.dst_rows + y) * box.dst_pitch + x];
                    if (byte) return true;
                    byte = true;
                }
            }
        }
    }
    return false;
}

}  // namespace

TEST_CASE("pm copy box: from every kind of memory to every kind, and no byte beside the box") {
    if (no_device()) return;
    const std::size_t nbytes = 8192;
    const pm::Box3D box{40, 4, 5, 64, 48, 7, 6};
    const auto stream = pm::Stream::create(0);
    for (const Resource& from : every_resource()) {
        for (const Resource& to : every_resource()) {
            CAPTURE(std::string(pm::to_string(from->kind())));
            CAPTURE(std::string(pm::to_string(to->kind())));
            const pm::Buffer source(from, nbytes);
            const pm::Buffer target(to, nbytes);
            put(source, 3);
            for (const StreamPtr& on : {StreamPtr{}, stream}) {
                put(target, 4);
                const auto done = pm::copy_3d(pm::Span::of(target), pm::Span::of(source), box, on);
                CHECK((done == nullptr) == (on == nullptr));
                if (done) done->synchronize();
                Bytes expected = pattern(nbytes, 4);
                move_box(expected, pattern(nbytes, 3), box);
                CHECK(get(target) == expected);
            }
        }
    }
}

TEST_CASE("pm copy box: with a stream it is queued, and the event tells when it has happened") {
    if (no_device()) return;
    const auto stream = pm::Stream::create(0);
    const pm::Box3D box{16, 4, 4, 16, 16, 4, 4};
    const pm::Buffer source(pinned_resource(), 256);
    const pm::Buffer target(device_resource(), 256);
    put(source, 1);
    put(target, 2);
    const Gate gate(stream);
    const auto done = pm::copy_3d(pm::Span::of(target), pm::Span::of(source), box, stream);
    CHECK_FALSE(done->query());
    CHECK_FALSE(gate.is_open());
    gate.open();
    done->synchronize();
    CHECK(get(target) == pattern(256, 1));
}

TEST_CASE("pm copy box: between plain host memory") {
    if (no_device()) return;
    Bytes from = pattern(2000, 8);
    Bytes to(2000);
    const pm::Box3D box{10, 5, 3, 20, 30, 9, 7};
    pm::copy_3d(pm::Span::host(to.data(), to.size()), pm::Span::host(from.data(), from.size()), box);
    Bytes expected(2000);
    move_box(expected, from, box);
    CHECK(to == expected);
}

TEST_CASE("pm copy box: what does not fit is refused with what would") {
    if (no_device()) return;
    const std::size_t max = ~std::size_t{0};
    const pm::Buffer target(device_resource(), 1000);
    const pm::Buffer source(device_resource(), 1000);
    put(target, 1);
    const auto refused = [&](const pm::Box3D& box) {
        return refusal<std::invalid_argument>([&] { pm::copy_3d(pm::Span::of(target), pm::Span::of(source), box); });
    };
    CHECK(contains(refused({10, 5, 4, 9, 10, 5, 5}), "target's pitch of 9 bytes is smaller"));
    CHECK(contains(refused({10, 5, 4, 10, 9, 5, 5}), "source's pitch of 9 bytes is smaller"));
    CHECK(contains(refused({10, 5, 4, 10, 10, 4, 5}), "target's slices of 4 rows are lower than the 5 rows"));
    CHECK(contains(refused({10, 5, 4, 10, 10, 5, 4}), "source's slices of 4 rows are lower than the 5 rows"));
    CHECK(contains(refused({10, 101, 1, 10, 10, 101, 101}), "do not fit the target of 1000 bytes: 100 would"));
    CHECK(contains(refused({10, 5, 21, 10, 10, 5, 5}), "do not fit the target of 1000 bytes: 20 would"));
    CHECK(contains(refused({10, 5, 20, 10, 10, 5, 6}), "do not fit the source of 1000 bytes: 16 would"));
    CHECK(contains(refused({10, 5, 2, 10, 10, max, 5}), "do not fit the target of 1000 bytes: 1 would"));
    CHECK(contains(refused({10, 1, 2, max, 10, 1, 1}), "do not fit the target of 1000 bytes: 1 would"));
    CHECK(contains(refused({10, 5, max, 10, 10, 5, 5}), ": 20 would"));
    CHECK(contains(refused({10, max, 2, 10, 10, max, max}), ": 100 would"));
    CHECK(contains(refused({1001, 1, 1, 1001, 1001, 1, 1}), ": 0 would"));
    CHECK(get(target) == pattern(1000, 1));
    CHECK(target.exports() == 0);
    pm::copy_3d(pm::Span::of(target), pm::Span::of(source), {10, 5, 20, 10, 10, 5, 5});
    pm::copy_3d(pm::Span::of(target), pm::Span::of(source), {1000, 1, 1, 1000, 1000, max, max});
    pm::copy_3d(pm::Span::of(target), pm::Span::of(source), {10, 5, 0, 0, 0, 0, 0});
    pm::copy_2d(pm::Span::of(target), pm::Span::of(source), {10, 0, 0, 0});
}

TEST_CASE("pm copy box: boxes of one layout overlap where they share a byte") {
    std::size_t alike = 0;
    for (const std::size_t pitch : {3U, 4U, 7U}) {
        for (const std::size_t rows : {1U, 2U, 5U}) {
            for (std::size_t width = 1; width <= pitch; ++width) {
                for (std::size_t height = 1; height <= rows; ++height) {
                    for (const std::size_t depth : {1U, 2U, 3U}) {
                        const pm::Box3D box{width, height, depth, pitch, pitch, rows, rows};
                        for (std::size_t distance = 0; distance < (depth + 1) * rows * pitch; ++distance) {
                            const bool found =
                                pm::detail::boxes_overlap(distance, width, height, depth, pitch, rows * pitch);
                            if (found == share_a_byte(distance, box)) {
                                ++alike;
                                continue;
                            }
                            FAIL_CHECK(width, " x ", height, " x ", depth, " of ", pitch, " x ", rows, ", ", distance,
                                       " bytes apart");
                        }
                    }
                }
            }
        }
    }
    CHECK(alike > 1000);
}

TEST_CASE("pm copy box: within one volume") {
    if (no_device()) return;
    const std::size_t pitch = 32, rows = 6, nbytes = pitch * rows * 6;
    const pm::Buffer volume(device_resource(), nbytes);
    const pm::Box3D face{8, rows, 6, pitch, pitch, rows, rows};
    put(volume, 5);
    pm::copy_3d(pm::Span::of(volume.sub(24, nbytes - 24)), pm::Span::of(volume), face);
    Bytes expected = pattern(nbytes, 5);
    Bytes behind(expected.begin() + 24, expected.end());
    move_box(behind, expected, face);
    std::copy(behind.begin(), behind.end(), expected.begin() + 24);
    CHECK(get(volume) == expected);
    const auto refused = [&](std::size_t to, const pm::Box3D& box) {
        return refusal<std::invalid_argument>(
            [&] { pm::copy_3d(pm::Span::of(volume.sub(to, nbytes - to)), pm::Span::of(volume), box); });
    };
    CHECK(contains(refused(7, face), "overlap"));
    CHECK(contains(refused(8, {8, 2, 2, pitch, pitch, rows, rows - 1}), "overlap"));
    CHECK(contains(refused(8, {8, 2, 2, pitch, pitch / 2, rows, 2 * rows}), "overlap"));
    CHECK_THROWS_AS(pm::copy_3d(pm::Span::of(volume), pm::Span::of(volume), face), std::invalid_argument);
    CHECK(get(volume) == expected);
}

TEST_CASE("pm copy box: between devices") {
    if (no_device() || pm::device_count() < 2) return;
    const pm::Box3D box{40, 4, 5, 64, 48, 7, 6};
    const pm::Buffer source(device_resource(), 4096);
    const pm::Buffer target(std::make_shared<pm::DeviceMemoryResource>(1), 4096);
    put(source, 9);
    put(target, 1);
    Bytes expected = pattern(4096, 1);
    move_box(expected, pattern(4096, 9), box);
    pm::copy_3d(pm::Span::of(target), pm::Span::of(source), box);
    CHECK(get(target) == expected);
    put(target, 1);
    pm::copy_3d(pm::Span::of(target), pm::Span::of(source), box, pm::Stream::create(1))->synchronize();
    CHECK(get(target) == expected);
}
