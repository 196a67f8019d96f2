// SPDX-License-Identifier: MIT
// core/host_pages/api.cpp: prefaulted pages as C functions.
#include "portamem/abi/host_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <exception>

#include "pages.hpp"

namespace {

using namespace portamem;

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t rounded(std::size_t nbytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (nbytes + page - 1) / page * page;
}

// Reserves addresses for `nbytes`, aligned for huge pages where they fill one.
char* reserve(std::size_t nbytes) {
    const std::size_t spare = nbytes >= huge_page ? huge_page : 0;
    if (nbytes + spare < nbytes) return nullptr;
    void* mapped = mmap(nullptr, nbytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    if (spare == 0) return static_cast<char*>(mapped);
    const std::size_t before = (spare - reinterpret_cast<std::uintptr_t>(mapped) % spare) % spare;
    char* begin = static_cast<char*>(mapped) + before;
    if (before != 0) (void)munmap(mapped, before);
    if (spare != before) (void)munmap(begin + nbytes, spare - before);
    return begin;
}

// Makes the system call itself, because few machines have the library around it. It prefers the node and does not bind
// to it: pages elsewhere are better than none. The call may fail, and then the system chooses.
void prefer_node(char* begin, std::size_t nbytes, int node) {
    constexpr int preferred = 1;
    constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
    unsigned long nodes[1024 / bits] = {};
    if (static_cast<std::size_t>(node) >= 1024) return;
    nodes[static_cast<std::size_t>(node) / bits] = 1ul << (static_cast<std::size_t>(node) % bits);
    (void)syscall(SYS_mbind, begin, nbytes, preferred, nodes, 1024 + 1, 0);
}

bool fork_leaves_pages_alone() {
    utsname about{};
    return uname(&about) == 0 && host_pages::copies_pinned_pages_at_fork(about.release);
}

void* map(std::size_t nbytes, int node) {
    const std::size_t size = rounded(nbytes);
    if (size < nbytes || size == 0 || size > host_pages::available("/proc/meminfo")) return nullptr;
    if (size > host_pages::left_in_groups("/proc/self/cgroup", "/sys/fs/cgroup")) return nullptr;
    char* begin = reserve(size);
    if (begin == nullptr) return nullptr;
    if (!fork_leaves_pages_alone() && madvise(begin, size, MADV_DONTFORK) != 0) {
        (void)munmap(begin, size);
        return nullptr;
    }
    if (size >= huge_page) (void)madvise(begin, size, MADV_HUGEPAGE);
    if (host_pages::is_host_node("/sys/devices/system/node", node)) prefer_node(begin, size, node);
    host_pages::make_resident(begin, size, host_pages::threads_for(size));
    return begin;
}

}  // namespace

void* portamem_pages_map(size_t nbytes, int numa_node) {
    try {
        return map(nbytes, numa_node);
    } catch (const std::exception&) {
        return nullptr;  // there is no host memory for the text of /proc
    }
}

void portamem_pages_unmap(void* pages, size_t nbytes) {
    if (pages != nullptr) (void)munmap(pages, rounded(nbytes));
}
