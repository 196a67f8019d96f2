// SPDX-License-Identifier: MIT
// host/mapping.cpp: maps and unmaps.
#include "mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "refusal.hpp"

namespace portamem::host {
namespace {

void* map(std::size_t size, int protection, int flags, int file) {
    void* address = mmap(nullptr, size, protection, flags | MAP_NORESERVE, file, 0);
    return address == MAP_FAILED ? nullptr : address;
}

}  // namespace

Mapping::Mapping(std::size_t size, bool guarded) : size_(size) {
    if (!guarded) {
        user_ = static_cast<char*>(map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
        alias_ = user_;
    } else if (const int file = memfd_create("portamem", MFD_CLOEXEC); file >= 0) {
        if (ftruncate(file, static_cast<off_t>(size)) == 0) {
            user_ = static_cast<char*>(map(size, PROT_NONE, MAP_SHARED, file));
            alias_ = static_cast<char*>(map(size, PROT_READ | PROT_WRITE, MAP_SHARED, file));
        }
        (void)close(file);
    }
    if (user_ != nullptr && alias_ != nullptr) return;
    if (user_ != nullptr) (void)munmap(user_, size);
    if (alias_ != nullptr && alias_ != user_) (void)munmap(alias_, size);
    refuse(pmhErrorOutOfMemory, "the operating system would not map %zu bytes", size);
}

Mapping::~Mapping() {
    if (user_ != nullptr) (void)munmap(user_, size_);
    if (alias_ != nullptr && alias_ != user_) (void)munmap(alias_, size_);
}

}  // namespace portamem::host
