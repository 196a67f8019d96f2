// SPDX-License-Identifier: MIT
// core/pool/resize.cpp: gives a block that is out another size, where it lies.
//
// The block keeps its address, so that nothing has to be copied. It grows within its own unused bytes without a lock,
// and beyond them into free memory that lies behind it.
#include "pool.hpp"

namespace portamem::pool {
namespace {

// Returns whether a block can be out for `nbytes`. A free by the size of the block looks kMostAbove classes up at most,
// and a smaller block wastes less.
bool may_be_out(const Block& block, std::size_t nbytes) noexcept {
    const std::size_t size = block.size();
    if (nbytes > size) return false;
    if (block.index == kHuge) return nbytes > kLargestCached && size - nbytes < kHugeStep;
    const unsigned above = block.index < kSmallClasses ? 0 : kMostAbove;
    return nbytes <= kLargestCached && class_of(nbytes) + above >= block.index;
}

}  // namespace

bool Pool::resize(void* ptr, std::size_t from, std::size_t to, std::uint64_t identity) noexcept {
    if (portamem_forked() != 0 || from == 0 || to == 0 || to > kLargestAsked) return false;
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    Block* const block = heap_.pages().find(address);
    if (block == nullptr || address < block->base || block->index == kExact) return false;
    const bool is_small = block->index < kSmallClasses;
    const std::size_t offset = address - block->base;
    const std::size_t number = is_small ? offset * kReciprocals[block->index] >> 32 : 0;
    const std::size_t size = block->size();
    if (offset != number * size || from > size) return false;
    if (may_be_out(*block, to)) {
        State out = out_of(size, from);
        std::atomic<State>& state = block->states[number << block->spread];
        if (!state.compare_exchange_strong(out, out_of(size, to), std::memory_order_acq_rel)) return false;
    } else if (is_small || to < from || !extend(*block, from, to, identity)) {
        return false;
    }
    caches_.count_resized(static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from));
    return true;
}

// Adds free memory behind a block to it: the stream's own, or memory that no stream has to be waited for. The block is
// not out meanwhile: a wrong free by another thread finds nothing.
bool Pool::extend(Block& block, std::size_t from, std::size_t to, std::uint64_t identity) noexcept {
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    State out = out_of(block.size(), from);
    if (!block.own_state.compare_exchange_strong(out, kFree, std::memory_order_acq_rel)) return false;
    Arena* const arena = needs_event_before_reuse() ? nullptr : heap_.arena_of(identity);
    const bool is_larger = heap_.extend(block, rounded(to), arena != nullptr && !arena->has_ended ? arena : nullptr);
    if (is_larger) block.index = static_cast<std::uint8_t>(to <= kLargestCached ? class_of(to) : kHuge);
    block.own_state.store(out_of(block.size(), is_larger ? to : from), std::memory_order_release);
    return is_larger;
}

}  // namespace portamem::pool
