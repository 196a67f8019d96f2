// SPDX-License-Identifier: MIT
// portamem/mr/detail/live_blocks.hpp: the blocks that a resource has out, by address.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/detail/light_vector.hpp"
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
    struct Note {
        void* ptr = nullptr;
        std::size_t nbytes = 0;
    };

  public:
    /// Represents a block on its way out or back, as a list of one note. It is empty where the address is not out.
    using Block = std::forward_list<Note>;

    /// Returns a note for a block that the caller is about to allocate. The caller takes the note first: a block that
    /// it has already might be refused when it is given back, and would be lost. Throws std::bad_alloc.
    static Block blank() { return Block(1); }

    /// Notes a block that was just allocated. Where the address is known already, it was freed behind the resource's
    /// back.
    void add(Block blank, void* ptr, std::size_t nbytes) noexcept {
        blank.front() = {ptr, nbytes};
        Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        (void)part.take_out(ptr);
        part.insert(std::move(blank));
    }

    /// Returns the bytes of a block; nothing where the address is not out.
    std::optional<std::size_t> size_of(const void* ptr) const {
        const Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        const Note* const found = part.find(ptr);
        return found == nullptr ? std::nullopt : std::optional(found->nbytes);
    }

    /// Takes a block out before its memory goes back, because its address may be handed out again at once. Throws
    /// std::invalid_argument where it has another size, and the block stays.
    Block take(void* ptr, std::size_t nbytes) {
        Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        const Note* const found = part.find(ptr);
        if (found == nullptr) return {};
        refuse_other_size(found->nbytes, nbytes);
        return part.take_out(ptr);
    }

    /// Runs a function that gives back the memory of a block that take returned. If the function throws, the block
    /// stays out.
    template <class Function>
    void give_back(Block block, Function&& function) {
        try {
            function();
        } catch (...) {
            if (!block.empty()) put_back(std::move(block));
            throw;
        }
    }

  private:
    // A hash table whose notes are linked into its lists, so that an insertion needs no host memory. A table that
    // cannot grow gets longer lists.
    class alignas(64) Part {
      public:
        const Note* find(const void* ptr) const noexcept {
            for (const Note& note : list_of(ptr)) {
                if (note.ptr == ptr) return &note;
            }
            return nullptr;
        }

        Block take_out(const void* ptr) noexcept {
            Block taken;
            Block& list = list_of(ptr);
            for (auto before = list.before_begin(); std::next(before) != list.end(); ++before) {
                if (std::next(before)->ptr != ptr) continue;
                taken.splice_after(taken.before_begin(), list, before);
                --count_;
                break;
            }
            return taken;
        }

        void insert(Block&& block) noexcept {
            if (count_ >= lists_.size() && count_ >= kFewest) grow();
            link(block);
            ++count_;
        }

        mutable std::mutex mutex;  // a leaf

      private:
        static constexpr std::size_t kFewest = 4;  // notes, before there is a table

        void link(Block& block) noexcept {
            Block& list = list_of(block.front().ptr);
            list.splice_after(list.before_begin(), block, block.before_begin());
        }

        void grow() noexcept {
            const std::size_t count = std::max(4 * kFewest, 2 * lists_.size());
            LightVector<Block> former;
            try {
                former.reserve(count);
            } catch (const std::bad_alloc&) {
                return;
            }
            while (former.size() != count) former.push_back(Block());
            former.swap(lists_);
            while (!first_.empty()) link(first_);
            for (Block& list : former) {
                while (!list.empty()) link(list);
            }
        }

        const Block& list_of(const void* ptr) const noexcept {
            if (lists_.empty()) return first_;
            // The top four bits of this product choose the part, and the number of lists is a power of two.
            const auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(ptr)) * 0x9E3779B97F4A7C15u;
            return lists_[(bits >> 32) & (lists_.size() - 1)];
        }
        Block& list_of(const void* ptr) noexcept { return const_cast<Block&>(std::as_const(*this).list_of(ptr)); }

        Block first_;  // until there is a table
        LightVector<Block> lists_;
        std::size_t count_ = 0;
    };

    void put_back(Block&& block) noexcept {
        Part& part = parts_.of(block.front().ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        // A refused free may have given the memory back all the same, and the address may be out again.
        if (part.find(block.front().ptr) == nullptr) part.insert(std::move(block));
    }

    PartsByAddress<Part> parts_;
};

}  // namespace detail

PORTAMEM_CLOSE
