// SPDX-License-Identifier: MIT
// core/pool_settings/device_sharers.hpp: how many live processes share a device.
//
// Each device has a file, named by its uuid, in a directory of the user in shared memory. Each process holds a record
// lock on one byte of the file, and writes nothing. The kernel takes the lock back when the process ends, however it
// ends, and a forked child does not inherit it. Therefore no entry is ever stale, and no process has to clean up.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace portamem::pool_settings {

class DeviceSharers {
  public:
    /// Keeps the files in this directory, and makes it where there is none. The directory has to belong to the user.
    explicit DeviceSharers(std::string directory) : directory_(std::move(directory)) {}

    /// Enters this process, and returns how many live processes have asked about the device, this one included. `uuid`
    /// has letters, digits and dashes only. Throws std::runtime_error with what the system refused.
    std::size_t count(const std::string& uuid);

    /// Returns /dev/shm/portamem-<user id>.
    static std::string default_directory();

  private:
    const std::string directory_;
    std::mutex mutex_;
    std::map<std::string, int> files_;  // open files, with one byte locked by this process, by uuid
};

}  // namespace portamem::pool_settings
