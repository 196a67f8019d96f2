// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/cpus.hpp: the CPUs that a thread may be told to stay on.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace table {

constexpr int kAnyCpu = -1;

/// Those that the process may run on; of more than 16 as many, spread evenly. kAnyCpu alone where the system does not say.
inline std::vector<int> some_cpus() {
    constexpr std::size_t kMost = 16;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {kAnyCpu};
    std::vector<int> all;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) all.push_back(cpu);
    }
    if (all.size() <= kMost) return all;
    std::vector<int> found;
    for (std::size_t i = 0; i < kMost; ++i) found.push_back(all[i * all.size() / kMost]);
    return found;
}

/// Keeps the calling thread on a CPU. One that may not be kept there runs where it is: its figure counts all the same.
inline void stay_on(int cpu) noexcept {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

}  // namespace table
