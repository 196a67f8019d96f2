// SPDX-License-Identifier: MIT
// tests/cpp/core_host_pages.cpp: prefaulted pages of the host.
#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "../../csrc/core/host_pages/pages.hpp"
#include "host_child.hpp"
#include "portamem/abi/host_pages.h"

using namespace host_tests;
using namespace portamem;

namespace {

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// Pages of a range that are in memory; none of a range that is not mapped.
std::size_t resident(void* begin, std::size_t nbytes) {
    std::vector<unsigned char> pages((nbytes + page_size() - 1) / page_size());
    if (mincore(begin, nbytes, pages.data()) != 0) return 0;
    std::size_t count = 0;
    for (const unsigned char page : pages) count += page & 1u;
    return count;
}

struct Pages {
    explicit Pages(std::size_t size, int node = -1)
        : nbytes(size), begin(static_cast<char*>(portamem_pages_map(size, node))) {
        REQUIRE(begin != nullptr);
    }
    ~Pages() { portamem_pages_unmap(begin, nbytes); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    const std::size_t nbytes;
    char* const begin;
};

/// Files as the kernel shows them.
struct Files {
    std::string path = "/tmp/portamem-test-XXXXXX";
    Files() { REQUIRE(mkdtemp(path.data()) != nullptr); }
    ~Files() { std::filesystem::remove_all(path); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path + "/" + name) << text;
        return path + "/" + name;
    }
};

}  // namespace

TEST_CASE("host pages: they are there, of zeros, and can be written") {
    for (const std::size_t nbytes : {std::size_t{1}, 4 * KiB, MiB + 1, 2 * MiB, 5 * MiB + 17, 70 * MiB}) {
        CAPTURE(nbytes);
        const Pages pages(nbytes);
        CHECK(resident(pages.begin, nbytes) == (nbytes + page_size() - 1) / page_size());
        if (nbytes >= 2 * MiB) CHECK(reinterpret_cast<std::uintptr_t>(pages.begin) % (2 * MiB) == 0);
        CHECK(std::all_of(pages.begin, pages.begin + nbytes, [](char c) { return c == 0; }));
        const Bytes bytes = pattern(nbytes, 3);
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(pages.begin));
        CHECK(std::equal(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(pages.begin)));
    }
}

TEST_CASE("host pages: given back, nothing of them is left") {
    for (const std::size_t nbytes : {MiB, 2 * MiB, 7 * MiB + 100}) {
        void* pages = portamem_pages_map(nbytes, -1);
        REQUIRE(pages != nullptr);
        portamem_pages_unmap(pages, nbytes);
        unsigned char vector[8 * KiB];
        CHECK(mincore(pages, nbytes, vector) == -1);
        CHECK(errno == ENOMEM);
    }
    portamem_pages_unmap(nullptr, 100);
}

TEST_CASE("host pages: more than there is, is refused") {
    CHECK(portamem_pages_map(0, -1) == nullptr);
    CHECK(portamem_pages_map(std::size_t{1} << 50, -1) == nullptr);
    CHECK(portamem_pages_map(~std::size_t{0}, -1) == nullptr);
    CHECK(portamem_pages_map(~std::size_t{0} - 3 * MiB, -1) == nullptr);
    CHECK(portamem_pages_map(host_pages::available("/proc/meminfo") + 256 * MiB, -1) == nullptr);
}

TEST_CASE("host pages: any node may be asked for") {
    for (const int node : {0, 1, 63, 1023, 1024, 1 << 30, -1, -7}) {
        CAPTURE(node);
        const Pages pages(3 * MiB, node);
        CHECK(resident(pages.begin, pages.nbytes) == pages.nbytes / page_size());
    }
}

TEST_CASE("host pages: a node that is only a GPU's memory is no place for the host's") {
    const Files nodes;
    (void)nodes.write("has_cpu", "0,72\n");
    (void)nodes.write("has_memory", "0-8,72\n");
    CHECK(host_pages::is_host_node(nodes.path, 0));
    CHECK(host_pages::is_host_node(nodes.path, 72));
    CHECK_FALSE(host_pages::is_host_node(nodes.path, 1));
    CHECK_FALSE(host_pages::is_host_node(nodes.path, -1));
    (void)nodes.write("has_memory", "72\n");
    CHECK_FALSE(host_pages::is_host_node(nodes.path, 0));
    CHECK_FALSE(host_pages::is_host_node(nodes.path + "/none", 0));
}

TEST_CASE("host pages: the kernel's lists") {
    CHECK(host_pages::names("0", 0));
    CHECK(host_pages::names("0-3,8-15", 8));
    CHECK(host_pages::names("0-3,8-15", 12));
    CHECK_FALSE(host_pages::names("0-3,8-15", 5));
    CHECK_FALSE(host_pages::names("0-3,8-15", 16));
    CHECK_FALSE(host_pages::names("", 0));
    CHECK_FALSE(host_pages::names("\n", 0));
    CHECK_FALSE(host_pages::names("some", 0));
}

TEST_CASE("host pages: what the kernel calls available") {
    const Files files;
    const std::string text = "MemTotal:       24000000 kB\nMemFree:   100 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n";
    CHECK(host_pages::available(files.write("meminfo", text)) == 2 * MiB);
    CHECK(host_pages::available(files.write("other", "MemTotal: 24000000 kB\n")) == SIZE_MAX);
    CHECK(host_pages::available(files.path + "/none") == SIZE_MAX);
    const std::size_t here = host_pages::available("/proc/meminfo");
    CHECK(here > 16 * MiB);
    CHECK(here < SIZE_MAX);
}

TEST_CASE("host pages: as many threads as there is work for") {
    CHECK(host_pages::threads_for(1) == 1);
    CHECK(host_pages::threads_for(31 * MiB) == 1);
    CHECK(host_pages::threads_for(std::size_t{1} << 40) <= 16);
    CHECK(host_pages::threads_for(std::size_t{1} << 40) <= std::max(1u, std::thread::hardware_concurrency()));
}

TEST_CASE("host pages: each page is made resident, with any number of threads") {
    constexpr std::size_t nbytes = 100 * MiB + 4 * KiB;
    for (const unsigned threads : {1u, 3u, 8u}) {
        void* pages = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(pages != MAP_FAILED);
        CHECK(resident(pages, nbytes) == 0);
        host_pages::make_resident(static_cast<char*>(pages), nbytes, threads);
        CHECK(resident(pages, nbytes) == nbytes / page_size());
        REQUIRE(munmap(pages, nbytes) == 0);
    }
}

TEST_CASE("host pages: since which kernels a fork leaves the parent its pages") {
    for (const char* release : {"5.12.0", "5.12.0-rc1", "5.100.3", "6.1.0-37-amd64", "10.0"}) {
        CAPTURE(release);
        CHECK(host_pages::copies_pinned_pages_at_fork(release));
    }
    for (const char* release : {"5.11.22", "4.4.0", "4.18.0-553.el8", "3.100", "", "six", "6"}) {
        CAPTURE(release);
        CHECK_FALSE(host_pages::copies_pinned_pages_at_fork(release));
    }
}

TEST_CASE("host pages: what the control groups of a process leave it") {
    const Files files;
    const std::string mount = files.path + "/groups";
    const auto left = [&](const std::string& own) {
        return host_pages::left_in_groups(files.write("own", own), mount);
    };
    const auto group = [&](const std::string& path, const std::string& names, const std::string& limit) {
        std::filesystem::create_directories(mount + path);
        const bool is_unified = names == "unified";
        (void)files.write("groups" + path + (is_unified ? "/memory.max" : "/memory.limit_in_bytes"), limit + "\n");
        (void)files.write("groups" + path + (is_unified ? "/memory.current" : "/memory.usage_in_bytes"), "3000\n");
        (void)files.write("groups" + path + "/memory.stat",
                          is_unified ? "anon 1900\ninactive_file 800\nactive_file 400\n"
                                     : "cache 1100\ninactive_file 7\ntotal_inactive_file 900\ntotal_active_file 200\n");
    };
    const auto limit = [&](const std::string& own) {
        return host_pages::limit_of_groups(files.write("own", own), mount);
    };
    CHECK(left("") == SIZE_MAX);
    CHECK(limit("") == SIZE_MAX);
    CHECK(left("0::/some/path\n") == SIZE_MAX);
    CHECK(host_pages::left_in_groups(files.path + "/none", mount) == SIZE_MAX);
    group("/a/b", "unified", "max");
    CHECK(left("0::/a/b\n") == SIZE_MAX);
    group("/a/b", "unified", "66000");
    CHECK(left("0::/a/b\n") == 63000);
    CHECK(limit("0::/a/b\n") == 66000);
    CHECK(left("0::/a/b/c/d\n") == 63000);  // of one that this process does not see, and of those above
    group("/a", "unified", "34000");
    CHECK(left("0::/a/b\n") == 31500);
    CHECK(limit("0::/a/b\n") == 34000);
    group("/a", "unified", "1000");
    CHECK(left("0::/a/b\n") == 0);
    group("", "unified", "130000");
    CHECK(left("0::/\n") == 126000);
    CHECK(left("0::/../other\n") == 126000);
    CHECK(left("0::nowhere/at\n") == 126000);
    group("/memory/x", "first", "66000");
    CHECK(left("12:pids:/x\n11:cpu,memory:/x\n1:name=systemd:/x\n") == 63000);
    CHECK(left("11:memory:/x\n0::/\n") == 63000);
    CHECK(limit("11:memory:/x\n0::/\n") == 66000);
    CHECK(left("11:memory_not:/x\n") == SIZE_MAX);
    group("/memory/x", "first", "9223372036854771712");
    CHECK(left("11:memory:/x\n") == SIZE_MAX);
}

TEST_CASE("host pages: a forked child has what was in them, and the parent keeps its own") {
    const Pages pages(3 * MiB);
    pages.begin[0] = 1;
    utsname about{};
    REQUIRE(uname(&about) == 0);
    const bool is_copied = host_pages::copies_pinned_pages_at_fork(about.release);
    const pid_t child = fork();
    REQUIRE(child != -1);
    if (child == 0) {
        unsigned char vector[KiB];
        const bool is_there = mincore(pages.begin, pages.nbytes, vector) == 0;
        if (is_there != is_copied) _exit(1);
        _exit(is_there && pages.begin[0] != 1 ? 1 : 0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(succeeded(status));
    CHECK(pages.begin[0] == 1);
}
