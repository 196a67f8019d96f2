// SPDX-License-Identifier: MIT
// portamem/mr/detail/live_blocks.hpp: the blocks that a resource has out, by address.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "portamem/detail/address_table.hpp"
#include "portamem/mr/detail/parts_by_address.hpp"

PORTAMEM_OPEN

namespace detail {

/// Throws std::invalid_argument unless memory of `had` bytes is given back as that many.
inline void refuse_other_size(std::size_t had, std::size_t nbytes) {
    if (had == nbytes) return;
    throw std::invalid_argument("the memory has " + std::to_string(had) + " bytes, not " + std::to_string(nbytes) +
                                ": give the size that was allocated");
}

[[noreturn]] inline void refuse_unknown_block() {
    throw std::invalid_argument(
        "this address is not out: it was freed before, or another resource gave it, or it lies inside of a block");
}

/// Keeps the sizes of the blocks that are out, in parts with a lock each, so that threads seldom meet. Each block takes
/// about 40 bytes of host memory. From its allocation to its free it costs two locks of its part, tens of nanoseconds.
class LiveBlocks {
  public:
    /// Represents a block on its way back. It is empty where the address is not out.
    struct Block {
        void* ptr = nullptr;
        std::size_t nbytes = 0;

        bool empty() const noexcept { return ptr == nullptr; }
    };

    /// Notes a block that was just allocated. Where the address is known already, it was freed behind the resource's
    /// back. Throws std::bad_alloc, and nothing is noted.
    void add(void* ptr, std::size_t nbytes) {
        Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        part.sizes.insert_or_assign(ptr, nbytes);
    }

    /// Returns the bytes of a block; nothing where the address is not out.
    std::optional<std::size_t> size_of(const void* ptr) const {
        const Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        const auto* const found = part.sizes.find(ptr);
        return found == nullptr ? std::nullopt : std::optional(found->nbytes);
    }

    /// Takes a block out before its memory goes back, because its address may be handed out again at once. Throws
    /// std::invalid_argument where it has another size, and the block stays.
    Block take(void* ptr, std::size_t nbytes) {
        Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        const auto* const found = part.sizes.find(ptr);
        if (found == nullptr) return {};
        refuse_other_size(found->nbytes, nbytes);
        part.sizes.erase(ptr);
        return {ptr, nbytes};
    }

    /// Runs a function that gives back the memory of a block that take returned. If the function throws, the block
    /// stays out.
    template <class Function>
    void give_back(Block block, Function&& function) {
        try {
            function();
        } catch (...) {
            if (!block.empty()) put_back(block);
            throw;
        }
    }

  private:
    struct alignas(64) Part {
        mutable std::mutex mutex;  // a leaf
        AddressTable sizes;
    };

    void put_back(const Block& block) noexcept {
        Part& part = parts_.of(block.ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        try {
            part.sizes.insert_or_assign(block.ptr, block.nbytes);
        } catch (const std::bad_alloc&) {
            // There is no host memory for a table that has grown meanwhile: the block is out, and this table has lost
            // it.
        }
    }

    PartsByAddress<Part> parts_;
};

}  // namespace detail

PORTAMEM_CLOSE
