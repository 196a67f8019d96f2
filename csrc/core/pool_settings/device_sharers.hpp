// SPDX-License-Identifier: MIT
// core/pool_settings/device_sharers.hpp: how many live processes share a device.
//
// A file per device's uuid, in a directory of the user's own in shared memory. Each process holds a record lock on one
// byte of it, and nothing is written: the kernel takes the lock back when the process ends, however it ends, and a
// forked child does not inherit it. So there are no stale entries and nobody has to clean up.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace portamem::pool_settings {

class DeviceSharers {
  public:
    /// Files are kept in a directory of this name, made where there is none. It has to be the user's own.
    explicit DeviceSharers(std::string directory) : directory_(std::move(directory)) {}

    /// Live processes that have asked about the device, this one among them, which is entered now. Letters, digits and
    /// dashes only. Throws std::runtime_error that says what the system refused.
    std::size_t count(const std::string& uuid);

    /// /dev/shm/portamem-<user id>.
    static std::string default_directory();

  private:
    const std::string directory_;
    std::mutex mutex_;
    std::map<std::string, int> files_;  // open, with our byte locked, by uuid
};

}  // namespace portamem::pool_settings
