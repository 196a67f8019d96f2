// SPDX-License-Identifier: MIT
// core/library.cpp: whether headers and library belong together, and whether the process has one library.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "portamem/abi/process_api.h"
#include "portamem/version.h"

namespace {

std::string version_text(unsigned major, unsigned minor) { return std::to_string(major) + "." + std::to_string(minor); }

std::string own_path() {
    Dl_info here{};
    if (dladdr(reinterpret_cast<const void*>(&portamem_check_headers), &here) == 0 || here.dli_fname == nullptr) {
        return "libportamem";
    }
    return here.dli_fname;
}

// Finds the loaded libraries by the names of their files. A static copy in a program or library has no such name.
std::vector<std::string> loaded_libraries() {
    std::vector<std::string> paths;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* found) {
            const char* const path = info->dlpi_name;
            const char* const slash = path == nullptr ? nullptr : std::strrchr(path, '/');
            if (slash != nullptr && std::strncmp(slash, "/libportamem.so", 15) == 0) {
                static_cast<std::vector<std::string>*>(found)->emplace_back(path);
            }
            return 0;
        },
        &paths);
    return paths;
}

void warn_of_others() {
    const std::vector<std::string> all = loaded_libraries();
    if (all.size() < 2) return;
    std::string text =
        "portamem: warning: " + std::to_string(all.size()) + " libraries of portamem are in this process:";
    for (const std::string& path : all) text += " " + path;
    text +=
        ". Each has pools and streams of its own, and what one keeps for reuse the other cannot have. Load one of them "
        "only: link all libraries to the same installation, and take the other off LD_PRELOAD and LD_LIBRARY_PATH.\n";
    (void)std::fputs(text.c_str(), stderr);
}

}  // namespace

const char* portamem_check_headers(uint32_t major, uint32_t minor) {
    try {
        static const bool warned = (warn_of_others(), true);
        (void)warned;
        if (major == PORTAMEM_VERSION_MAJOR && minor == PORTAMEM_VERSION_MINOR) return nullptr;
        // Each thread keeps its own text, because another thread may ask for another version.
        static thread_local std::unique_ptr<std::string> told;
        told = std::make_unique<std::string>(
            "the program was compiled with the headers of portamem " + version_text(major, minor) + ", and runs with " +
            own_path() + ", which is " + version_text(PORTAMEM_VERSION_MAJOR, PORTAMEM_VERSION_MINOR) +
            ": compile and link it with one installation (in CMake, one portamem_DIR; else the -I and the -L of one)");
        return told->c_str();
    } catch (const std::exception&) {
        return "the headers of portamem and libportamem are of two versions: compile and link with one installation";
    }
}
