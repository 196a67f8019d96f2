// SPDX-License-Identifier: MIT
// tests/cpp/host_virtual.cpp: virtual memory of the CPU runtime: its calls, and what they refuse.
#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <utility>

#include "host_memory_taken.hpp"
#include "host_virtual_support.hpp"
#include "portamem/detail/sanitizers.hpp"

using namespace host_tests;

namespace {

bool copy_is_refused(void* ptr, std::size_t size) {
    Bytes bytes(size);
    const DeviceMemory device(size);
    const Stream stream;
    return pmhMemcpy(ptr, bytes.data(), size, pmhMemcpyDefault) == pmhErrorInvalidValue &&
           pmhMemcpy(bytes.data(), ptr, size, pmhMemcpyDefault) == pmhErrorInvalidValue &&
           pmhMemcpyAsync(device, ptr, size, pmhMemcpyDefault, stream) == pmhErrorInvalidValue &&
           pmhMemset(ptr, 1, size) == pmhErrorInvalidValue &&
           pmhMemcpyPeer(ptr, 0, device, 0, size) == pmhErrorInvalidValue;
}

}  // namespace

TEST_CASE("host virtual: it is there, and its granularity is the same on all devices") {
    CHECK(has(pmhDevAttrVirtualMemoryManagementSupported));
    for (const int device : {0, 1}) {
        std::size_t bytes = 0;
        HOST_OK(pmhMemGetAllocationGranularity(&bytes, on(device), pmhMemAllocationGranularityMinimum));
        CHECK(bytes == granule);
        HOST_OK(pmhMemGetAllocationGranularity(&bytes, on(device), pmhMemAllocationGranularityRecommended));
        CHECK(bytes == 2 * MiB);
    }
}

TEST_CASE("host virtual: two pieces side by side are used as one") {
    const Range range(8 * granule);
    const Physical first(granule), second(3 * granule);
    const Mapped low(range.at(0), first), high(range.at(granule), second);
    CHECK(get(range.ptr, 4 * granule) == Bytes(4 * granule, 0));
    const Bytes bytes = pattern(4 * granule, 1);
    put(range.ptr, bytes);
    CHECK(get(range.ptr, 4 * granule) == bytes);
    const Bytes middle(bytes.begin() + granule - 50, bytes.begin() + granule + 50);
    CHECK(get(range.at(granule - 50), 100) == middle);

    Bytes filled = bytes;
    std::fill_n(filled.begin() + granule - 7, 2 * granule, static_cast<unsigned char>(9));
    HOST_OK(pmhMemset(range.at(granule - 7), 9, 2 * granule));
    CHECK(get(range.ptr, 4 * granule) == filled);

    const DeviceMemory other(4 * granule);
    const Stream stream;
    HOST_OK(pmhMemcpyAsync(other, range.ptr, 4 * granule, pmhMemcpyDeviceToDevice, stream));
    HOST_OK(pmhMemset2DAsync(range.at(granule - KiB), 2 * KiB, 3, KiB, 2, stream));
    HOST_OK(pmhStreamSynchronize(stream));
    CHECK(get(other, 4 * granule) == filled);
    CHECK(get(range.at(granule - KiB), KiB) == Bytes(KiB, 3));
    CHECK(get(range.at(granule + KiB), KiB) == Bytes(KiB, 3));
    HOST_OK(pmhMemcpyPeer(range.ptr, 0, other, 0, 4 * granule));
    CHECK(get(range.ptr, 4 * granule) == filled);

    CHECK(copy_is_refused(range.ptr, 4 * granule + 1));
    CHECK(copy_is_refused(range.at(4 * granule), 1));
    CHECK(get(range.ptr, 4 * granule) == filled);
}

TEST_CASE("host virtual: contents follow the handle") {
    const Range range(4 * granule), elsewhere(4 * granule);
    const Physical memory(2 * granule);
    const Bytes bytes = pattern(2 * granule, 2);
    {
        const Mapped mapped(range.at(granule), memory);
        put(mapped.ptr, bytes);
    }
    const Mapped again(elsewhere.at(2 * granule), memory);
    CHECK(get(again.ptr, 2 * granule) == bytes);
    const Physical fresh(2 * granule);
    const Mapped new_memory(range.at(granule), fresh);
    CHECK(get(new_memory.ptr, 2 * granule) == Bytes(2 * granule, 0));
}

TEST_CASE("host virtual: memory mapped twice is the same memory") {
    const Range range(4 * granule);
    const Physical memory(granule);
    Mapped first(range.at(0), memory);
    const Mapped second(range.at(3 * granule), memory);
    put(first.ptr, pattern(granule, 3));
    CHECK(get(second.ptr, granule) == pattern(granule, 3));
    put(second.ptr, pattern(granule, 4));
    CHECK(get(first.ptr, granule) == pattern(granule, 4));
    first.unmap();
    CHECK(get(second.ptr, granule) == pattern(granule, 4));
}

TEST_CASE("host virtual: the device counts the memory until neither handle nor mapping is left") {
    const Knobs knobs;
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhKnobSetCapacity(0, 8 * MiB));
    const std::size_t before = free_bytes();
    const Range range(64 * MiB), copy(2 * MiB);
    CHECK(free_bytes() == before);
    Physical memory(6 * MiB);
    CHECK(free_bytes() == before - 6 * MiB);
    Handle refused = nullptr;
    CHECK(pmhMemCreate(&refused, 4 * MiB, on(0)) == pmhErrorOutOfMemory);
    CHECK(detail() == "4194304 bytes asked for; device 0 has 6291456 of 8388608 reserved");
    HOST_OK(pmhMemCreate(&refused, 4 * MiB, on(1)));
    HOST_OK(pmhMemRelease(refused));
    {
        Mapped mapped(range.ptr, memory);
        put(mapped.ptr, pattern(6 * MiB, 5));
        Mapped twice(range.at(8 * MiB), memory);
        CHECK(free_bytes() == before - 6 * MiB);
        memory.release();
        CHECK(free_bytes() == before - 6 * MiB);
        CHECK(get(mapped.ptr, 6 * MiB) == pattern(6 * MiB, 5));
        mapped.unmap();
        CHECK(free_bytes() == before - 6 * MiB);
        CHECK(get(twice.ptr, 6 * MiB) == pattern(6 * MiB, 5));
    }
    CHECK(free_bytes() == before);
    Physical again(8 * MiB);
    const Mapped mapped(range.ptr, again);
    CHECK(get(mapped.ptr, 8 * MiB) == Bytes(8 * MiB, 0));
}

TEST_CASE("host virtual: idle memory of pools makes room") {
    const Knobs knobs;
    HOST_OK(pmhDeviceSynchronize());
    HOST_OK(pmhKnobSetCapacity(0, 8 * MiB));
    const Pool pool;
    pool.set(pmhMemPoolAttrReleaseThreshold, UINT64_MAX);
    HOST_OK(pmhFreeAsync(pool.allocate(6 * MiB, nullptr), nullptr));
    CHECK(pool.reserved() == 6 * MiB);
    const Physical memory(4 * MiB);
    CHECK(pool.reserved() == 0);
}

TEST_CASE("host virtual: a pointer is of its piece, once its device has access") {
    const bool open = has(pmhDevAttrDirectDeviceMemAccessFromHost);
    const Range range(4 * granule);
    const Physical first(granule), second(granule, 1);
    CHECK(attributes_of(range.ptr).type == pmhMemoryTypeUnregistered);
    HOST_OK(map(range.ptr, granule, first.handle));
    HOST_OK(map(range.at(granule), granule, second.handle));
    CHECK(attributes_of(range.ptr).type == pmhMemoryTypeUnregistered);
    CHECK(access_of(range.ptr) == pmhMemAccessFlagsProtNone);
    CHECK(copy_is_refused(range.ptr, granule));

    HOST_OK(set_access(range.ptr, 2 * granule));
    const auto found = attributes_of(range.at(granule - 1));
    CHECK(found.type == pmhMemoryTypeDevice);
    CHECK(found.device == 0);
    CHECK(found.base == range.ptr);
    CHECK(found.size == granule);
    CHECK(found.devicePointer == range.at(granule - 1));
    CHECK(found.hostPointer == (open ? range.at(granule - 1) : nullptr));
    CHECK(access_of(range.at(2 * granule - 1)) == pmhMemAccessFlagsProtReadWrite);
    CHECK(access_of(range.at(granule), 1) == pmhMemAccessFlagsProtNone);
    CHECK(attributes_of(range.at(granule)).type == pmhMemoryTypeUnregistered);  // its own device has no access yet
    CHECK(copy_is_refused(range.ptr, granule + 1));

    HOST_OK(set_access(range.ptr, 2 * granule, pmhMemAccessFlagsProtReadWrite, 1));
    CHECK(attributes_of(range.at(granule)).device == 1);
    CHECK(attributes_of(range.at(granule)).base == range.at(granule));
    put(range.ptr, pattern(2 * granule, 6));
    const DeviceMemory other(2 * granule);
    CHECK(pmhMemcpyPeer(other, 0, range.ptr, 0, 2 * granule) == pmhErrorInvalidValue);  // its second half is device 1's
    HOST_OK(pmhMemcpyPeer(other, 0, range.ptr, 0, granule));
    HOST_OK(pmhMemcpyPeer(other.at(granule), 0, range.at(granule), 1, granule));
    CHECK(get(other, 2 * granule) == pattern(2 * granule, 6));

    HOST_OK(set_access(range.ptr, granule, pmhMemAccessFlagsProtNone));
    CHECK(attributes_of(range.ptr).type == pmhMemoryTypeUnregistered);
    CHECK(access_of(range.ptr) == pmhMemAccessFlagsProtNone);
    CHECK(access_of(range.ptr, 1) == pmhMemAccessFlagsProtReadWrite);
    HOST_OK(set_access(range.ptr, granule));
    HOST_OK(set_access(range.ptr, granule));
    CHECK(get(range.ptr, 2 * granule) == pattern(2 * granule, 6));
    HOST_OK(pmhMemUnmap(range.ptr, granule));
    HOST_OK(pmhMemUnmap(range.at(granule), granule));
    int flags = -1;
    CHECK(pmhMemGetAccess(&flags, on(0), range.ptr) == pmhErrorInvalidValue);
    CHECK(attributes_of(range.ptr).type == pmhMemoryTypeUnregistered);
    CHECK(flags == -1);
}

TEST_CASE("host virtual: a range is unmapped as it was mapped, and freed when it is empty") {
    const Range range(8 * granule);
    const Physical memory(2 * granule), other(granule);
    const Mapped low(range.at(0), memory);
    const Mapped high(range.at(2 * granule), other);
    put(range.ptr, pattern(3 * granule, 7));
    for (const auto& [begin, size] :
         {std::pair<std::size_t, std::size_t>{0, 1}, {1, 1}, {0, 3}, {3, 1}, {2, 2}, {7, 4}})
        CHECK(pmhMemUnmap(range.at(begin * granule), size * granule) == pmhErrorInvalidValue);
    for (const auto& [begin, size] : {std::pair<std::size_t, std::size_t>{0, 8}, {0, 3}, {3, 5}, {0, 9}})
        CHECK(pmhMemAddressFree(range.at(begin * granule), size * granule) == pmhErrorInvalidValue);
    for (const std::size_t begin : {0u, 1u, 2u})
        CHECK(map(range.at(begin * granule), 2 * granule, memory.handle) == pmhErrorInvalidValue);
    CHECK(map(range.at(7 * granule), 2 * granule, memory.handle) == pmhErrorInvalidValue);  // leaves the range
    CHECK(map(range.at(4 * granule), granule, memory.handle) == pmhErrorInvalidValue);      // not all of the memory
    CHECK(pmhMemMap(range.at(4 * granule), granule, granule, memory.handle) == pmhErrorInvalidValue);
    for (const auto& [begin, size] :
         {std::pair<std::size_t, std::size_t>{0, 1}, {1, 1}, {1, 2}, {0, 4}, {3, 1}, {5, 9}})
        CHECK(set_access(range.at(begin * granule), size * granule, pmhMemAccessFlagsProtNone) == pmhErrorInvalidValue);
    CHECK(get(range.ptr, 3 * granule) == pattern(3 * granule, 7));
}

TEST_CASE("host virtual: a gap is not passed over") {
    const Range range(4 * granule);
    const Physical memory(granule);
    const Mapped low(range.at(0), memory), high(range.at(2 * granule), memory);
    CHECK(set_access(range.ptr, 3 * granule) == pmhErrorInvalidValue);
    CHECK(copy_is_refused(range.ptr, 3 * granule));
    CHECK(copy_is_refused(range.at(granule), 1));
    put(range.ptr, pattern(granule, 12));
    CHECK(get(range.at(2 * granule), granule) == pattern(granule, 12));
}

TEST_CASE("host virtual: memory that was taken away is not used any more") {
    const Range range(4 * granule);
    const Physical memory(granule);
    Mapped low(range.at(0), memory), high(range.at(granule), memory);
    put(range.ptr, pattern(2 * granule, 13));
    HOST_OK(set_access(high.ptr, granule, pmhMemAccessFlagsProtNone));
    CHECK(copy_is_refused(high.ptr, granule));
    CHECK(detail().find("reserved: no memory with access is mapped there") != std::string::npos);
    CHECK(copy_is_refused(range.at(granule - 8), 16));
    low.unmap();
    CHECK(copy_is_refused(low.ptr, granule));
    HOST_OK(set_access(high.ptr, granule));
    CHECK(copy_is_refused(range.at(granule - 8), 16));
    Bytes bytes = pattern(2 * granule, 13);
    CHECK(get(high.ptr, granule) == Bytes(bytes.end() - granule, bytes.end()));
}

TEST_CASE("host virtual: no other call takes it away or registers it") {
    const Range range(4 * granule);
    const Physical memory(granule);
    const Mapped mapped(range.at(0), memory);
    put(range.ptr, pattern(granule, 8));
    unsigned flags = 0;
    void* seen = nullptr;
    for (const std::size_t offset : {std::size_t{0}, granule - KiB, granule, 4 * granule - KiB}) {
        char* const ptr = range.at(offset);
        CHECK(pmhFree(ptr) == pmhErrorInvalidValue);
        CHECK(detail().find("virtual memory: use MemUnmap") != std::string::npos);
        CHECK(pmhFreeAsync(ptr, nullptr) == pmhErrorInvalidValue);
        CHECK(pmhHostFree(ptr) == pmhErrorInvalidValue);
        CHECK(pmhHostRegister(ptr, KiB, 0) == pmhErrorInvalidValue);
        CHECK(pmhHostGetFlags(&flags, ptr) == pmhErrorInvalidValue);
        CHECK(pmhHostGetDevicePointer(&seen, ptr, 0) == pmhErrorInvalidValue);
        CHECK(pmhMemPrefetchAsync(ptr, KiB, on(0), 0, nullptr) == pmhErrorInvalidValue);
        CHECK(pmhMemAdvise(ptr, KiB, pmhMemAdviseSetReadMostly, on(0)) == pmhErrorInvalidValue);
        CHECK(pmhStreamAttachMemAsync(nullptr, ptr, 0, pmhMemAttachGlobal) == pmhErrorInvalidValue);
    }
    CHECK(get(range.ptr, granule) == pattern(granule, 8));
}

TEST_CASE("host virtual: the CPU sees what it sees of other device memory") {
    const DeviceMemory device(granule);
    const Range range(4 * granule);
    const Physical memory(granule);
    CHECK_FALSE(is_readable(range.ptr));
    const Mapped mapped(range.at(granule), memory);
    CHECK(is_readable(mapped.ptr) == is_readable(device));
    CHECK_FALSE(is_readable(range.ptr));
    CHECK_FALSE(is_readable(range.at(2 * granule)));
}

TEST_CASE("host virtual: alignment") {
    for (const std::size_t alignment : {std::size_t{0}, std::size_t{1}, granule, 2 * MiB, 64 * MiB, 1024 * MiB}) {
        CAPTURE(alignment);
        const Range range(3 * granule, alignment);
        CHECK(reinterpret_cast<std::uintptr_t>(range.ptr) % std::max(alignment, granule) == 0);
        const Physical memory(3 * granule);
        const Mapped mapped(range.ptr, memory);
        put(mapped.ptr, pattern(3 * granule, 9));
        CHECK(get(mapped.ptr, 3 * granule) == pattern(3 * granule, 9));
    }
    void* ptr = nullptr;
    CHECK(pmhMemAddressReserve(&ptr, granule, 3 * granule, nullptr) == pmhErrorInvalidValue);
    CHECK(pmhMemAddressReserve(&ptr, SIZE_MAX - granule + 1, 0, nullptr) == pmhErrorOutOfMemory);
    CHECK(ptr == nullptr);
    const Range large(std::size_t{1} << 38);  // much more than there is memory
    CHECK(copy_is_refused(large.at(large.size - 1), 1));
}

TEST_CASE("host virtual: a handle that was released is never another's") {
    Handle first = nullptr, second = nullptr;
    HOST_OK(pmhMemCreate(&first, granule, on(0)));
    HOST_OK(pmhMemRelease(first));
    HOST_OK(pmhMemCreate(&second, granule, on(0)));
    CHECK(first != second);
    CHECK(pmhMemRelease(first) == pmhErrorInvalidValue);
    const Range range(granule);
    CHECK(map(range.ptr, granule, first) == pmhErrorInvalidValue);
    HOST_OK(pmhMemRelease(second));
}

TEST_CASE("host virtual: a call that fails leaves all as it was, and works when it is made again") {
    const Knobs knobs;
    const std::size_t before = free_bytes();
    const Bytes bytes = pattern(2 * granule, 10);
    void* ptr = nullptr;
    Handle handle = nullptr;
    int flags = 0;
    const std::pair<const char*, std::function<pmhError_t()>> calls[] = {
        {"MemAddressReserve", [&] { return pmhMemAddressReserve(&ptr, 4 * granule, 0, nullptr); }},
        {"MemCreate", [&] { return pmhMemCreate(&handle, 2 * granule, on(0)); }},
        {"MemMap", [&] { return map(ptr, 2 * granule, handle); }},
        {"MemSetAccess", [&] { return set_access(ptr, 2 * granule); }},
        {"Memcpy", [&] { return pmhMemcpy(ptr, bytes.data(), 2 * granule, pmhMemcpyDefault); }},
        {"MemGetAccess", [&] { return pmhMemGetAccess(&flags, on(0), ptr); }},
        {"Memcpy", [&] { return get(ptr, 2 * granule) == bytes ? pmhSuccess : pmhErrorUnknown; }},
        {"MemUnmap", [&] { return pmhMemUnmap(ptr, 2 * granule); }},
        {"MemRelease", [&] { return pmhMemRelease(handle); }},
        {"MemAddressFree", [&] { return pmhMemAddressFree(ptr, 4 * granule); }},
    };
    for (const auto& failing : calls) {
        CAPTURE(std::string(failing.first));
        int failures = 0;
        HOST_OK(pmhKnobFailCall(failing.first, 1, pmhErrorOutOfMemory));
        for (const auto& made : calls) {
            CAPTURE(std::string(made.first));
            if (made.second() == pmhSuccess) continue;
            ++failures;
            HOST_OK(made.second());
        }
        CHECK(failures == 1);
        CHECK(free_bytes() == before);
    }
}

namespace {

/// Makes a call fail at each operator new that it needs. Then it is made with all that it needs.
template <class Call>
void short_of_host_memory(Call&& call) {
    for (std::uint64_t nth = 1; nth < 50; ++nth) {
        fail_host_memory(nth);
        const pmhError_t error = call();
        fail_host_memory(0);
        if (error == pmhSuccess) return;
        REQUIRE(error == pmhErrorOutOfMemory);
    }
    FAIL("the call does not come to an end");
}

}  // namespace

TEST_CASE("host virtual: a call without host memory leaves all as it was") {
    const std::size_t before = free_bytes();
    void* ptr = nullptr;
    Handle first = nullptr, second = nullptr;
    short_of_host_memory([&] { return pmhMemAddressReserve(&ptr, 4 * granule, 0, nullptr); });
    char* const range = static_cast<char*>(ptr);
    short_of_host_memory([&] {
        const pmhError_t error = pmhMemCreate(&first, granule, on(0));
        if (error != pmhSuccess) CHECK(free_bytes() == before);
        return error;
    });
    short_of_host_memory([&] { return pmhMemCreate(&second, 2 * granule, on(0)); });
    CHECK(free_bytes() == before - 3 * granule);
    short_of_host_memory([&] { return map(range, granule, first); });
    short_of_host_memory([&] { return map(range + granule, 2 * granule, second); });
    short_of_host_memory([&] {
        const pmhError_t error = set_access(range, 3 * granule);
        for (const std::size_t offset : {std::size_t{0}, granule, 2 * granule})
            CHECK((access_of(range + offset) == pmhMemAccessFlagsProtReadWrite) == (error == pmhSuccess));
        CHECK((attributes_of(range).type == pmhMemoryTypeDevice) == (error == pmhSuccess));
        return error;
    });
    put(range, pattern(3 * granule, 14));
    CHECK(get(range, 3 * granule) == pattern(3 * granule, 14));
    short_of_host_memory([&] { return set_access(range, 3 * granule, pmhMemAccessFlagsProtNone); });
    short_of_host_memory([&] { return pmhMemRelease(first); });
    short_of_host_memory([&] { return pmhMemUnmap(range, granule); });
    CHECK(free_bytes() == before - 2 * granule);
    short_of_host_memory([&] { return pmhMemUnmap(range + granule, 2 * granule); });
    short_of_host_memory([&] { return pmhMemRelease(second); });
    short_of_host_memory([&] { return pmhMemAddressFree(range, 4 * granule); });
    CHECK(free_bytes() == before);
}

TEST_CASE("host virtual: thousands of handles at once") {
    constexpr std::size_t count = 3000;
    const Range range(count * granule);
    std::vector<Handle> handles(count);
    for (std::size_t i = 0; i < count; ++i) {
        HOST_OK(pmhMemCreate(&handles[i], granule, on(0)));
        HOST_OK(map(range.at(i * granule), granule, handles[i]));
    }
    HOST_OK(set_access(range.ptr, range.size));
    HOST_OK(pmhMemset(range.ptr, 1, range.size));
    CHECK(get(range.at(1500 * granule - 8), 16) == Bytes(16, 1));
    CHECK(get(range.at(range.size - 8), 8) == Bytes(8, 1));
    for (std::size_t i = 0; i < count; ++i) {
        HOST_OK(pmhMemUnmap(range.at(i * granule), granule));
        HOST_OK(pmhMemRelease(handles[i]));
    }
}
