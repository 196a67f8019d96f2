// SPDX-License-Identifier: MIT
// host/pages.cpp: reads the process's mappings and the machine's limits.
#include "pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "../core/host_pages/pages.hpp"
#include "mapping.hpp"

namespace portamem::host {
namespace {

struct CloseFile {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
};

/// Reads the next line of a file without its end, as far as there is room. False behind the last line.
template <std::size_t Room>
bool next_line(std::FILE* file, char (&line)[Room]) {
    if (std::fgets(line, Room, file) == nullptr) return false;
    for (int c = 0; std::strchr(line, '\n') == nullptr && (c = std::fgetc(file)) != EOF && c != '\n';) {
    }
    return true;
}

std::size_t machine_bytes() {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long size = sysconf(_SC_PAGESIZE);
    return pages <= 0 || size <= 0 ? SIZE_MAX : static_cast<std::size_t>(pages) * static_cast<std::size_t>(size);
}

}  // namespace

bool has_pages(const void* ptr, std::size_t size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    const std::uintptr_t last = begin + (size - 1);
    const std::unique_ptr<std::FILE, CloseFile> mappings(std::fopen("/proc/self/maps", "re"));
    if (mappings == nullptr) {  // MS_ASYNC writes nothing: the kernel only checks that the range is mapped
        char* const first = reinterpret_cast<char*>(begin / page_size * page_size);
        return msync(first, last - reinterpret_cast<std::uintptr_t>(first) + 1, MS_ASYNC) == 0;
    }
    std::uintptr_t next = begin;  // all pages before it are there
    char line[128];
    while (next_line(mappings.get(), line)) {  // lines come by rising addresses
        std::uintptr_t from = 0;
        std::uintptr_t to = 0;
        char access = '-';
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c", &from, &to, &access) != 3 || to <= next) continue;
        if (from > next || access != 'r') return false;
        if (to > last) return true;
        next = to;
    }
    return false;
}

std::size_t lockable_bytes() {
    static const std::size_t bytes =
        std::min(machine_bytes(), host_pages::limit_of_groups("/proc/self/cgroup", "/sys/fs/cgroup"));
    return bytes;
}

}  // namespace portamem::host
