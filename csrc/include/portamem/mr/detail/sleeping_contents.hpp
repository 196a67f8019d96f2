// SPDX-License-Identifier: MIT
// portamem/mr/detail/sleeping_contents.hpp: the bytes of blocks whose device memory is away.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "portamem/abi/pool_annotator.h"
#include "portamem/abi/pool_api.h"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/error.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps the contents of blocks in ordinary memory of the host, by the blocks' addresses. Of a block that is a pool's
/// chunk it keeps the pieces of which something is out: the rest has no contents.
class SleepingContents {
  public:
    /// Copies the bytes of a block of `nbytes`, of which the first `mapped` have memory. whole: also those that a pool
    /// has not out. Throws Error and std::bad_alloc.
    void add(void* ptr, std::size_t nbytes, std::size_t mapped, bool whole) {
        LightVector<Part> parts;
        if (whole || portamem_pool_used_parts(rt::BackendId, ptr, nbytes, note, &parts) == 0)
            parts = LightVector<Part>(1, Part{0, nbytes});
        std::size_t sum = 0;
        for (Part& part : parts) {
            part.begin = std::min(part.begin, mapped);
            part.nbytes = std::min(part.nbytes, mapped - part.begin);
            sum += part.nbytes;
        }
        Block block{std::move(parts), std::shared_ptr<char>(new char[sum], std::default_delete<char[]>()), sum};
        move(ptr, block, rt::MemcpyKind::DeviceToHost);
        blocks_[ptr] = std::move(block);
    }

    /// Copies all bytes back to their addresses, where memory is again. Throws Error.
    void restore() const {
        for (const auto& [ptr, block] : blocks_) move(ptr, block, rt::MemcpyKind::HostToDevice);
        if (!blocks_.empty()) check(rt::DeviceSynchronize(), "DeviceSynchronize");
    }

    /// Forgets the contents of a block.
    void drop(void* ptr) { blocks_.erase(ptr); }

    /// Returns the bytes of host memory that the contents take.
    std::size_t nbytes() const noexcept {
        std::size_t sum = 0;
        for (const auto& [ptr, block] : blocks_) sum += block.nbytes;
        return sum;
    }

  private:
    struct Part {
        std::size_t begin;  // from the block's address on
        std::size_t nbytes;
    };
    struct Block {
        LightVector<Part> parts;      // in the order of their addresses, each behind the one before in `bytes`
        std::shared_ptr<char> bytes;  // held here alone
        std::size_t nbytes = 0;
    };

    static constexpr std::size_t kGap = std::size_t{64} << 10;  // takes less time to copy than a call does

    // Adds a pool's piece to the parts. Pieces that are near each other become one part: each takes a call.
    static void note(void* self, const portamem_pool_piece* piece) {
        auto& parts = *static_cast<LightVector<Part>*>(self);
        const auto begin = static_cast<std::size_t>(piece->address - piece->chunk);
        const auto nbytes = static_cast<std::size_t>(piece->nbytes);
        if (!parts.empty() && begin - parts.back().begin <= parts.back().nbytes + kGap) {
            parts.back().nbytes = begin + nbytes - parts.back().begin;
        } else {
            parts.push_back({begin, nbytes});
        }
    }

    static void move(void* ptr, const Block& block, rt::MemcpyKind kind) {
        char* bytes = block.bytes.get();
        for (const Part& part : block.parts) {
            copy(static_cast<char*>(ptr) + part.begin, bytes, part.nbytes, kind);
            bytes += part.nbytes;
        }
    }

    // Leaves out what AddressSanitizer lets no code touch.
    static void copy(char* memory, char* bytes, std::size_t nbytes, rt::MemcpyKind kind) {
        const bool is_from = kind == rt::MemcpyKind::DeviceToHost;
        std::size_t run = 0;
        for (std::size_t at = 0; at < nbytes; at += run) {
            int is_unused = 0;
            run = portamem_address_sanitizer_run(rt::BackendId, memory + at, nbytes - at, &is_unused);
            if (is_unused != 0) continue;
            check(rt::Memcpy((is_from ? bytes : memory) + at, (is_from ? memory : bytes) + at, run, kind), "Memcpy");
        }
    }

    NumberMap<void*, Block> blocks_;
};

}  // namespace detail

PORTAMEM_CLOSE
