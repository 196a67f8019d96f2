// SPDX-License-Identifier: MIT
// tests/cpp/host_child.hpp: tests of what is settled once in a process. Each runs this program again, with one of the
// skipped cases.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "host_support.hpp"

namespace host_tests {

using Environment = std::map<std::string, std::string>;

/// The status of a fresh process that runs the one case "host child: <name>".
inline int run_child(const std::string& name, const Environment& environment = {}) {
    const std::string filter = "--test-case=host child: " + name;
    const pid_t child = fork();
    REQUIRE(child != -1);
    if (child == 0) {
        for (const auto& [key, value] : environment) (void)setenv(key.c_str(), value.c_str(), 1);
        (void)execl("/proc/self/exe", "child", filter.c_str(), "--no-skip", "--minimal", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

inline bool succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

}  // namespace host_tests
