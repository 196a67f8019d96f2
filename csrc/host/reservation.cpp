// SPDX-License-Identifier: MIT
// host/reservation.cpp: reserves addresses, and replaces what is mapped to them.
#include "reservation.hpp"

#include <sys/mman.h>

#include "refusal.hpp"

namespace portamem::host {
namespace {

constexpr int without_memory = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

[[noreturn]] void refuse_addresses(std::size_t size) {
    refuse(pmhErrorOutOfMemory, "the operating system has no room for %zu bytes of addresses", size);
}

char* reserve_addresses(std::size_t size) {
    void* address = mmap(nullptr, size, PROT_NONE, without_memory, -1, 0);
    if (address == MAP_FAILED) refuse_addresses(size);
    return static_cast<char*>(address);
}

char* reserve_aligned_addresses(std::size_t size, std::size_t alignment) {
    if (alignment <= page_size) return reserve_addresses(size);
    if (size > SIZE_MAX - alignment) refuse_addresses(size);
    char* const begin = reserve_addresses(size + alignment);
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const std::size_t before = round_up(address, alignment) - address;
    if (before != 0) (void)munmap(begin, before);
    (void)munmap(begin + before + size, alignment - before);
    return begin + before;
}

void replace(char* address, std::size_t size, int flags, int file, std::int64_t file_offset) {
    void* mapped = mmap(address, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, file, file_offset);
    if (mapped == MAP_FAILED) refuse(pmhErrorOutOfMemory, "the operating system would not map %zu bytes", size);
}

}  // namespace

Reservation::Reservation(std::size_t size, std::size_t alignment, bool guarded) : Mapping(size) {
    user_ = reserve_aligned_addresses(size, alignment);
    alias_ = guarded ? reserve_addresses(size) : user_;
}

void Reservation::map(std::size_t offset, std::size_t size, int file, std::int64_t file_offset) {
    replace(alias() + offset, size, MAP_SHARED, file, file_offset);
    // A child of fork() is not to write to memory that it shares with its parent. Vendors keep it out of children too.
    (void)madvise(alias() + offset, size, MADV_DONTFORK);
}

void Reservation::unmap(std::size_t offset, std::size_t size) {
    replace(alias() + offset, size, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

}  // namespace portamem::host
