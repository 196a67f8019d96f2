// SPDX-License-Identifier: MIT
// portamem/device.hpp: devices by ordinal: count, current, identity, memory, limits, peers.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <optional>
#include <string>

#include "portamem/capabilities.hpp"
#include "portamem/capture.hpp"
#include "portamem/declared_work.hpp"
#include "portamem/detail/hearing.hpp"
#include "portamem/device_guard.hpp"
#include "portamem/device_wait.hpp"
#include "portamem/kept.hpp"

PORTAMEM_OPEN

/// Gives bytes of a device. `free` and `total` are the runtime's figures, where other processes and the caches of pools
/// count as used. `held` is what portamem's resources of this process have taken of the runtime. It counts what
/// portamem's pools have cached, except for the default resource that portamem made.
struct MemoryInfo {
    std::size_t free = 0;
    std::size_t total = 0;
    std::size_t held = 0;
};

/// Returns how many devices this process can see; 0 where the runtime reports that there are none.
inline int device_count() {
    refuse_forked();
    int count = 0;
    const rt::Error_t answer = rt::GetDeviceCount(&count);
    if (answer == rt::Error_t::Success) {
        detail::watch_exit();
        return count;
    }
    if (detail::means_no_device(answer)) return 0;
    detail::raise(answer, "GetDeviceCount");
}

namespace detail {

// Raises the runtime's own error for having no device.
[[noreturn]] inline void raise_no_device() {
    int count = 0;
    const rt::Error_t answer = rt::GetDeviceCount(&count);
    raise(answer == rt::Error_t::Success ? rt::Error_t::NoDevice : answer, "GetDeviceCount");
}

}  // namespace detail

/// Returns the ordinal of the calling thread's current device. Throws Error if there is no device.
inline int current_device() {
    refuse_forked();
    if (device_count() == 0) detail::raise_no_device();
    int device = 0;
    check(rt::GetDevice(&device), "GetDevice");
    return device;
}

/// Names a device by its ordinal. It is a value that holds nothing of the runtime. The constructor throws
/// std::invalid_argument if there is no such device, and Error if there is none at all.
class Device {
  public:
    explicit Device(int ordinal) : ordinal_(ordinal) {
        const int count = device_count();
        if (count == 0) detail::raise_no_device();
        if (ordinal < 0 || ordinal >= count) {
            throw std::invalid_argument("there is no device " + std::to_string(ordinal) + " on " + rt::BackendName +
                                        ": there are " + std::to_string(count) + ", from 0 to " +
                                        std::to_string(count - 1));
        }
    }

    static Device current() { return Device(current_device()); }

    int ordinal() const noexcept { return ordinal_; }

    /// Makes this the calling thread's current device. CUDA 12 and later create its context at once.
    void set_current() const {
        refuse_forked();
        check(rt::SetDevice(ordinal_), "SetDevice");
    }

    rt::DeviceProperties properties() const {
        refuse_forked();
        rt::DeviceProperties properties;
        check(rt::GetDeviceProperties(&properties, ordinal_), "GetDeviceProperties");
        return properties;
    }

    /// Returns what query_capabilities returns for this device.
    Capabilities capabilities() const { return query_capabilities(ordinal_); }

    /// Returns the uuid in its usual spelling, 8-4-4-4-12 hexadecimal digits.
    std::string uuid() const {
        refuse_forked();
        std::array<unsigned char, 16> bytes{};
        check(rt::DeviceGetUuid(bytes.data(), ordinal_), "DeviceGetUuid");
        std::string text;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
            char digits[3];
            std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
            text += digits;
        }
        return text;
    }

    /// Returns "domain:bus:device.function" in hexadecimal, with small letters.
    std::string pci_bus_id() const {
        refuse_forked();
        char text[32] = {};
        check(rt::DeviceGetPCIBusId(text, sizeof text, ordinal_), "DeviceGetPCIBusId");
        std::string id = text;
        std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
        return id;
    }

    /// Returns the NUMA node that the device is attached to, as the kernel reports it, or nothing where it reports
    /// none.
    std::optional<int> numa_node() const {
        const std::string path = "/sys/bus/pci/devices/" + pci_bus_id() + "/numa_node";
        std::FILE* const file = std::fopen(path.c_str(), "re");
        if (file == nullptr) return std::nullopt;
        int node = -1;
        const bool is_read = std::fscanf(file, "%d", &node) == 1;
        (void)std::fclose(file);
        if (!is_read || node < 0) return std::nullopt;
        return node;
    }

    /// Returns the device's memory figures. CUDA and HIP create the device's context to answer.
    MemoryInfo memory_info() const {
        const DeviceGuard guard(ordinal_);
        MemoryInfo info;
        check(rt::MemGetInfo(&info.free, &info.total), "MemGetInfo");
        info.held = portamem_held(rt::BackendId, ordinal_);
        return info;
    }

    /// Returns a limit, in bytes. Throws Error if the device has no such limit.
    std::size_t limit(rt::Limit which) const {
        const DeviceGuard guard(ordinal_);
        std::size_t value = 0;
        check(rt::DeviceGetLimit(&value, which), "DeviceGetLimit");
        return value;
    }
    /// Asks the runtime for another limit, in bytes. The runtime may round it: limit() says what it became. Throws
    /// Error if the device has no such limit, or if the runtime refuses the size.
    void set_limit(rt::Limit which, std::size_t nbytes) const {
        const RelaxedCapture beside(ordinal_);
        check(rt::DeviceSetLimit(which, nbytes), "DeviceSetLimit");
    }

    /// Returns the lowest and the highest priority that streams may have. A numerically greater value is a lower
    /// priority.
    std::pair<int, int> stream_priority_range() const {
        const DeviceGuard guard(ordinal_);
        int least = 0;
        int greatest = 0;
        check(rt::DeviceGetStreamPriorityRange(&least, &greatest), "DeviceGetStreamPriorityRange");
        return {least, greatest};
    }

    /// Blocks until all work submitted to the device has run. Then it lets go of what finished work kept. Throws
    /// std::invalid_argument while a capture that portamem began is open on any stream.
    void synchronize() const {
        detail::refuse_in_capture("synchronizing the device");
        const RelaxedCapture beside(ordinal_);
        const auto unfinished = detail::DeclaredWorks::instance().unfinished(ordinal_);
        detail::hear_until_idle(ordinal_);
        check(rt::DeviceSynchronize(), "DeviceSynchronize");
        for (const detail::DeclaredSoFar& work : unfinished) work.note_run();
        detail::Leaving::instance().let_go(detail::Leaving::Caller::Waits);  // what the work kept alive is let go now
        Reaper::instance().run_once();
    }

    /// Returns whether kernels of this device can use the memory of `peer`, once enable_peer_access was called. It is
    /// false for a device and itself.
    bool can_access_peer(Device peer) const {
        int can = 0;
        check(rt::DeviceCanAccessPeer(&can, ordinal_, peer.ordinal_), "DeviceCanAccessPeer");
        return can != 0;
    }
    /// Lets this device's kernels use plain memory of `peer`, for this process. Memory of the driver's pools and
    /// virtual memory need set_access of their resource instead. Throws Error if the runtime refuses, or if access is
    /// enabled already.
    void enable_peer_access(Device peer) const {
        const DeviceGuard guard(ordinal_);
        check(rt::DeviceEnablePeerAccess(peer.ordinal_), "DeviceEnablePeerAccess");
    }
    /// Takes back what enable_peer_access allowed. Throws Error if access is not enabled.
    void disable_peer_access(Device peer) const {
        const DeviceGuard guard(ordinal_);
        check(rt::DeviceDisablePeerAccess(peer.ordinal_), "DeviceDisablePeerAccess");
    }

    friend bool operator==(Device a, Device b) noexcept { return a.ordinal_ == b.ordinal_; }

  private:
    int ordinal_;
};

PORTAMEM_CLOSE
