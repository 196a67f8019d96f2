// SPDX-License-Identifier: MIT
// core/host_pages/pages.cpp: makes pages resident quickly, near a device.
#include "pages.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "../own_threads.hpp"

namespace portamem::host_pages {
namespace {

constexpr std::size_t piece_size = std::size_t{16} << 20;  // takes a thread some milliseconds
constexpr unsigned most_threads = 16;  // more threads gain nothing: clearing pages in the kernel is the limit then

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// Writes to each page of one piece, as the program's first writes would, so that the threads fault side by side. In
// madvise(MADV_POPULATE_WRITE) they hold each other up (4 GiB on 16 threads: 250 ms instead of 70).
void touch(char* begin, std::size_t nbytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < nbytes; at += page) *static_cast<volatile char*>(begin + at) = 0;
}

}  // namespace

bool names(const std::string& list, int number) {
    std::size_t at = 0;
    while (at < list.size()) {
        char* end = nullptr;
        const long first = std::strtol(list.c_str() + at, &end, 10);
        long last = first;
        if (end == list.c_str() + at) return false;
        if (*end == '-') last = std::strtol(end + 1, &end, 10);
        if (first <= number && number <= last) return true;
        at = static_cast<std::size_t>(end - list.c_str()) + 1;
    }
    return false;
}

bool is_host_node(const std::string& nodes, int node) {
    return node >= 0 && names(first_line(nodes + "/has_cpu"), node) && names(first_line(nodes + "/has_memory"), node);
}

std::size_t available(const std::string& meminfo) {
    std::ifstream file(meminfo);
    std::string key;
    std::size_t kib = 0;
    while (file >> key) {
        if (key == "MemAvailable:" && file >> kib) return kib * 1024;
        file.ignore(256, '\n');
    }
    return SIZE_MAX;
}

bool copies_pinned_pages_at_fork(const std::string& release) {
    int major = 0;
    int minor = 0;
    if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2) return false;
    return major > 5 || (major == 5 && minor >= 12);
}

unsigned threads_for(std::size_t nbytes) {
    const auto pieces = static_cast<unsigned>(std::min<std::size_t>(nbytes / piece_size, most_threads));
    return std::max(1u, std::min(pieces, usable_cpus(0)));
}

void make_resident(char* begin, std::size_t nbytes, unsigned threads) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (;;) {
            const std::size_t at = next.fetch_add(piece_size, std::memory_order_relaxed);
            if (at >= nbytes) return;
            touch(begin + at, std::min(piece_size, nbytes - at));
        }
    };
    std::vector<std::thread> helpers;
    try {
        const NoSignals hidden;
        while (helpers.size() + 1 < threads) helpers.emplace_back(work);
    } catch (const std::exception&) {
        // The system has no more threads to give: the present ones do the work.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace portamem::host_pages
