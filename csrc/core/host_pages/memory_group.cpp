// SPDX-License-Identifier: MIT
// core/host_pages/memory_group.cpp: the host memory that the process's control groups (a container's) allow it.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "pages.hpp"

namespace portamem::host_pages {
namespace {

// The names that one version of the kernel's interface uses.
struct Names {
    const char* folder;
    const char* limit;
    const char* used;
    const char* inactive;  // part of `used`: file pages that the kernel frees first,
    const char* active;    // and file pages that it frees later
};
constexpr Names kUnified{"", "/memory.max", "/memory.current", "inactive_file", "active_file"};
constexpr Names kFirst{"/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file",
                       "total_active_file"};
constexpr std::size_t kNoLimit = std::size_t{1} << 62;  // the first version writes "no limit" as a number

// Reads a number. False where there is no file, and for "max".
bool read_number(const std::string& path, std::size_t& number) {
    std::ifstream file(path);
    return static_cast<bool>(file >> number);
}

std::size_t read_entry(const std::string& path, const std::string& wanted) {
    std::ifstream file(path);
    std::string key;
    std::size_t number = 0;
    while (file >> key >> number) {
        if (key == wanted) return number;
    }
    return 0;
}

std::size_t limit_of(const std::string& group, const Names& names) {
    std::size_t limit = 0;
    return !read_number(group + names.limit, limit) || limit >= kNoLimit ? SIZE_MAX : limit;
}

std::size_t left_in(const std::string& group, const Names& names) {
    const std::size_t limit = limit_of(group, names);
    std::size_t used = 0;
    if (limit == SIZE_MAX) return SIZE_MAX;
    if (!read_number(group + names.used, used)) return SIZE_MAX;
    const std::string pages = group + "/memory.stat";
    used -= std::min(used, read_entry(pages, names.inactive) + read_entry(pages, names.active) / 2);
    const std::size_t left = limit - std::min(limit, used);
    return left - left / 64;  // the kernel's own memory counts too
}

// Returns the least answer of the process's groups.
template <class Ask>
std::size_t least_of_groups(const std::string& own_groups, const std::string& mount, Ask&& ask) {
    std::size_t least = SIZE_MAX;
    std::ifstream file(own_groups);
    for (std::string line; std::getline(file, line);) {  // number:controllers:path
        std::istringstream fields(line);
        std::string number;
        std::string controllers;
        std::string path;
        if (!std::getline(fields, number, ':') || !std::getline(fields, controllers, ':')) continue;
        (void)std::getline(fields, path);
        const bool is_unified = controllers.empty();
        if (!is_unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
        const Names& names = is_unified ? kUnified : kFirst;
        // Each group above limits the process too. In a container the path may be of another tree, and the container's
        // own group is the topmost there.
        for (;;) {
            least = std::min(least, ask(mount + names.folder + path, names));
            if (path.empty()) break;
            const std::size_t slash = path.rfind('/');
            path.erase(slash == std::string::npos ? 0 : slash);
        }
    }
    return least;
}

}  // namespace

std::size_t left_in_groups(const std::string& own_groups, const std::string& mount) {
    return least_of_groups(own_groups, mount, left_in);
}

std::size_t limit_of_groups(const std::string& own_groups, const std::string& mount) {
    return least_of_groups(own_groups, mount, limit_of);
}

}  // namespace portamem::host_pages
