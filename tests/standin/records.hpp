// SPDX-License-Identifier: MIT
// records.hpp: what the host runtime knows of a pointer, for answers that its own functions do not give.
#pragma once

#include <cstddef>
#include <optional>

#include "../../csrc/host/allocation.hpp"

namespace standin {

struct Known {
    portamem::host::Kind kind;
    char* base;
    std::size_t size;
    int device;
    unsigned flags;
    bool is_freeable;  ///< not the stand-in's own mapping, of virtual memory or of another process

    bool is_device_memory() const {
        using portamem::host::Kind;
        return kind == Kind::Device || kind == Kind::Pool || kind == Kind::Virtual;
    }
    bool is_host_memory() const {
        return kind == portamem::host::Kind::Pinned || kind == portamem::host::Kind::Registered;
    }
};

/// The memory that holds an address, if it is the runtime's; nothing in a forked child.
std::optional<Known> known(const void* ptr);

/// Gives memory that starts at `base` the flags with which the vendor's user asked for it.
void set_flags(const void* base, unsigned flags);

/// Waits until the work that a device has at this moment is done.
void wait_for_device(int device);

}  // namespace standin
