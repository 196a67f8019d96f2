// SPDX-License-Identifier: MIT
// portamem/mr/detail/sleeping_contents.hpp: the bytes of blocks whose device memory is away.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "portamem/error.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps the contents of blocks in ordinary memory of the host, by the blocks' addresses.
class SleepingContents {
  public:
    /// Copies a block's bytes. Throws Error and std::bad_alloc.
    void add(void* ptr, std::size_t nbytes) {
        Bytes bytes{std::unique_ptr<char[]>(new char[nbytes]), nbytes};
        check(rt::Memcpy(bytes.data.get(), ptr, nbytes, rt::MemcpyKind::DeviceToHost), "Memcpy");
        blocks_[ptr] = std::move(bytes);
    }

    /// Copies all bytes back to their addresses, where memory is again. Throws Error.
    void restore() const {
        for (const auto& [ptr, bytes] : blocks_)
            check(rt::Memcpy(ptr, bytes.data.get(), bytes.nbytes, rt::MemcpyKind::HostToDevice), "Memcpy");
        if (!blocks_.empty()) check(rt::DeviceSynchronize(), "DeviceSynchronize");
    }

    /// Forgets the contents of a block.
    void drop(void* ptr) { blocks_.erase(ptr); }

  private:
    struct Bytes {
        std::unique_ptr<char[]> data;
        std::size_t nbytes = 0;
    };

    std::unordered_map<void*, Bytes> blocks_;
};

}  // namespace detail

PORTAMEM_CLOSE
