// SPDX-License-Identifier: MIT
// portamem/mr/detail/sleeping_contents.hpp: the bytes of blocks whose device memory is away.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "portamem/abi/pool_annotator.h"
#include "portamem/error.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps the contents of blocks in ordinary memory of the host, by the blocks' addresses. Left out is what a memory
/// checker lets no code touch: bytes that a pool does not give out have no contents.
class SleepingContents {
  public:
    /// Copies a block's bytes. Throws Error and std::bad_alloc.
    void add(void* ptr, std::size_t nbytes) {
        Bytes bytes{std::unique_ptr<char[]>(new char[nbytes]), nbytes};
        copy(bytes.data.get(), ptr, ptr, nbytes, rt::MemcpyKind::DeviceToHost);
        blocks_[ptr] = std::move(bytes);
    }

    /// Copies all bytes back to their addresses, where memory is again. Throws Error.
    void restore() const {
        for (const auto& [ptr, bytes] : blocks_)
            copy(ptr, bytes.data.get(), ptr, bytes.nbytes, rt::MemcpyKind::HostToDevice);
        if (!blocks_.empty()) check(rt::DeviceSynchronize(), "DeviceSynchronize");
    }

    /// Forgets the contents of a block.
    void drop(void* ptr) { blocks_.erase(ptr); }

  private:
    struct Bytes {
        std::unique_ptr<char[]> data;
        std::size_t nbytes = 0;
    };

    // block: the one of dst and src that is the block.
    static void copy(void* dst, const void* src, const void* block, std::size_t nbytes, rt::MemcpyKind kind) {
        std::size_t size = 0;
        for (std::size_t at = 0; at < nbytes; at += size) {
            int is_unused = 0;
            size = portamem_run_of_bytes(rt::BackendId, static_cast<const char*>(block) + at, nbytes - at, &is_unused);
            if (is_unused != 0) continue;
            check(rt::Memcpy(static_cast<char*>(dst) + at, static_cast<const char*>(src) + at, size, kind), "Memcpy");
        }
    }

    std::unordered_map<void*, Bytes> blocks_;
};

}  // namespace detail

PORTAMEM_CLOSE
