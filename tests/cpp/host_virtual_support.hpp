// SPDX-License-Identifier: MIT
// tests/cpp/host_virtual_support.hpp: reserved addresses, physical memory and mappings of the CPU runtime for tests.
#pragma once

#include <unistd.h>

#include <utility>

#include "host_support.hpp"

namespace host_tests {

using Handle = pmhMemGenericAllocationHandle_t;

inline constexpr std::size_t granule = 64 * KiB;

inline pmhMemLocation on(int device) { return {pmhMemLocationTypeDevice, device}; }

inline pmhError_t map(void* ptr, std::size_t size, Handle handle) { return pmhMemMap(ptr, size, 0, handle); }

inline pmhError_t set_access(void* ptr, std::size_t size, int flags = pmhMemAccessFlagsProtReadWrite, int device = 0) {
    return pmhMemSetAccess(ptr, size, on(device), flags);
}

inline int access_of(void* ptr, int device = 0) {
    int flags = -1;
    HOST_OK(pmhMemGetAccess(&flags, on(device), ptr));
    return flags;
}

/// Reserved addresses. All memory has to be unmapped before it goes.
struct Range {
    char* ptr = nullptr;
    const std::size_t size;
    explicit Range(std::size_t size_, std::size_t alignment = 0) : size(size_) {
        void* found = nullptr;
        HOST_OK(pmhMemAddressReserve(&found, size, alignment, nullptr));
        ptr = static_cast<char*>(found);
    }
    ~Range() { (void)pmhMemAddressFree(ptr, size); }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
    char* at(std::size_t offset) const { return ptr + offset; }
};

struct Physical {
    Handle handle = nullptr;
    const std::size_t size;
    explicit Physical(std::size_t size_, int device = 0) : size(size_) {
        HOST_OK(pmhMemCreate(&handle, size, on(device)));
    }
    ~Physical() { release(); }
    Physical(const Physical&) = delete;
    Physical& operator=(const Physical&) = delete;
    void release() {
        if (handle != nullptr) CHECK(pmhMemRelease(std::exchange(handle, nullptr)) == pmhSuccess);
    }
};

/// A mapping with access for device 0.
struct Mapped {
    void* const ptr;
    std::size_t size;
    Mapped(void* ptr_, const Physical& memory) : ptr(ptr_), size(memory.size) {
        HOST_OK(map(ptr, size, memory.handle));
        HOST_OK(set_access(ptr, size));
    }
    ~Mapped() { unmap(); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    void unmap() {
        if (size != 0) CHECK(pmhMemUnmap(ptr, std::exchange(size, 0)) == pmhSuccess);
    }
};

/// True where the CPU may read a byte. The system refuses to write it to a pipe where it may not.
inline bool is_readable(const void* ptr) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const bool readable = write(ends[1], ptr, 1) == 1;
    for (const int end : ends) (void)close(end);
    return readable;
}

}  // namespace host_tests
