// SPDX-License-Identifier: MIT
// portamem/mr/detail/live_ranges.hpp: the ranges that a resource has out, for a source that may give a range twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "portamem/detail/number_map.hpp"
#include "portamem/mr/detail/live_blocks.hpp"

PORTAMEM_OPEN

namespace detail {

/// Keeps the ranges that are out, none of which shares a byte with another. One lock guards all.
class LiveRanges {
    using Sizes = NumberTree;

  public:
    /// Represents a block on its way out or back. It is empty where the address is not out.
    using Block = Sizes::node_type;

    struct Range {
        std::uintptr_t address = 0;
        std::size_t nbytes = 0;
    };

    /// Returns a note for a block that the caller is about to allocate, as LiveBlocks::blank does. Throws
    /// std::bad_alloc.
    static Block blank() {
        Sizes one;
        return one.extract(one.insert({0, 0}).first);
    }

    /// Notes a block that was just allocated, whose range does not wrap around, and returns a range of 0 bytes. Where
    /// the block shares a byte with a block that is out, it notes nothing and returns that block.
    Range add(Block blank, void* ptr, std::size_t nbytes) noexcept {
        const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto after = sizes_.upper_bound(begin);
        if (after != sizes_.begin()) {
            const auto before = std::prev(after);
            if (begin - before->first < before->second) return {before->first, before->second};
        }
        if (after != sizes_.end() && after->first - begin < nbytes) return {after->first, after->second};
        blank.key() = begin;
        blank.mapped() = nbytes;
        sizes_.insert(after, std::move(blank));
        return {};
    }

    /// Returns the bytes of a block; nothing where none that is out begins at the address.
    std::optional<std::size_t> size_of(const void* ptr) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = sizes_.find(reinterpret_cast<std::uintptr_t>(ptr));
        return found == sizes_.end() ? std::nullopt : std::optional(found->second);
    }

    /// Returns the block that an address is in; a range of 0 bytes where none that is out has it.
    Range range_at(const void* ptr) const {
        const auto address = reinterpret_cast<std::uintptr_t>(ptr);
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto after = sizes_.upper_bound(address);
        if (after == sizes_.begin()) return {};
        const auto found = std::prev(after);
        return address - found->first < found->second ? Range{found->first, found->second} : Range{};
    }

    /// Takes a block out before its memory goes back, because its address may be handed out again at once. Throws
    /// std::invalid_argument where it has another size, and the block stays.
    Block take(void* ptr, std::size_t nbytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = sizes_.find(reinterpret_cast<std::uintptr_t>(ptr));
        if (found == sizes_.end()) return {};
        refuse_other_size(found->second, nbytes);
        return sizes_.extract(found);
    }

    /// Runs a function that gives back the memory of a block that take returned. If the function throws, the block
    /// stays out.
    template <class Function>
    void give_back(Block block, Function&& function) {
        try {
            function();
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!block.empty()) sizes_.insert(std::move(block));
            throw;
        }
    }

  private:
    mutable std::mutex mutex_;  // a leaf
    Sizes sizes_;
};

}  // namespace detail

PORTAMEM_CLOSE
