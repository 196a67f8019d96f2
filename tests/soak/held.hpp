// SPDX-License-Identifier: MIT
// tests/soak/held.hpp: what portamem, the device and the process hold, and whether it has grown.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "portamem/detail/sanitizers.hpp"
#include "portamem/portamem.hpp"

// Bytes that a driver may keep for its streams; the CPU's runtime keeps nothing.
constexpr std::size_t kDeviceSlack = portamem::rt::BackendId == PORTAMEM_BACKEND_HOST ? 0 : std::size_t{64} << 20;
constexpr std::size_t kResidentSlack = std::size_t{48} << 20;  // the C library keeps some of many threads' memory

/// Held memory, in bytes.
struct Held {
    std::uint64_t host = 0;    ///< by portamem, of host memory
    std::uint64_t device = 0;  ///< and of the device's
    std::size_t free = 0;      ///< of the device
    std::size_t resident = 0;  ///< by the process; 0 where that says nothing
};

/// Bytes of host memory that this process takes, without those that the C library keeps for its next request. 0 where a
/// sanitizer's records may be among them, which grow with the memory that was touched.
inline std::size_t resident_bytes() {
#if PORTAMEM_ADDRESS_SANITIZER || PORTAMEM_THREAD_SANITIZER
    return 0;
#else
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0;
    std::size_t resident = 0;
    file >> all >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
#endif
}

/// The bytes that are held when nothing is queued.
inline Held held() {
    portamem::check(portamem::rt::DeviceSynchronize(), "DeviceSynchronize");
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(4);
    while (portamem_held(portamem::rt::BackendId, 0) != 0 && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    Held found;
    found.host = portamem_held(portamem::rt::BackendId, -1);
    found.device = portamem_held(portamem::rt::BackendId, 0);
    std::size_t total = 0;
    portamem::check(portamem::rt::MemGetInfo(&found.free, &total), "MemGetInfo");
    found.resident = resident_bytes();
    return found;
}

/// Says what some work left held that was not held before it; empty where all is as it should be.
inline std::vector<std::string> grown(const Held& before, const Held& after) {
    std::vector<std::string> faults;
    if (after.host != before.host || after.device != before.device) {
        faults.push_back("portamem holds " + std::to_string(after.host) + " bytes of the host and " +
                         std::to_string(after.device) + " of the device, and held " + std::to_string(before.host) +
                         " and " + std::to_string(before.device));
    }
    if (after.free + kDeviceSlack < before.free) {
        faults.push_back("the device has " + std::to_string(after.free) + " bytes free, and had " +
                         std::to_string(before.free));
    }
    if (after.resident > before.resident + kResidentSlack) {
        faults.push_back("the process takes " + std::to_string(after.resident) + " bytes, and took " +
                         std::to_string(before.resident));
    }
    return faults;
}
