// SPDX-License-Identifier: MIT
// core/pool/heap.cpp: chunks, cut into blocks and put together again.
#include "heap.hpp"

#include <algorithm>
#include <utility>

namespace portamem::pool {
namespace {

constexpr std::size_t kLeastRest = kPage;  // what is left of a block and smaller than this stays with it, if it is
constexpr std::size_t kRestShare = 32;     // also smaller than this share of the block

constexpr unsigned kMostJoined = 1024;  // blocks that nobody uses and that are looked at for neighbours

constexpr std::size_t kMostPieces = 32;  // that are taken from another stream at once

constexpr std::size_t kMostUnmerged = std::size_t{32} << 20;  // bytes of an arena's kept blocks

struct SlabShape {
    std::size_t length;
    std::uint32_t blocks;
    std::uint8_t stride;
};

// Whole pages, for 8 blocks at least, of which not more than 1/32 is left over. Few blocks have a cache line of state
// each: they may be with different threads.
constexpr SlabShape shape_of(unsigned index) {
    const std::size_t size = size_of(index);
    std::size_t length = std::max<std::size_t>(2 * kPage, (8 * size + kPage - 1) / kPage * kPage);
    while (length % size * 32 > length) length += kPage;
    const auto blocks = static_cast<std::uint32_t>(length / size);
    return {length, blocks, static_cast<std::uint8_t>(blocks <= 32 ? 6 : 0)};
}

constexpr std::array<SlabShape, kSmallClasses> all_shapes() {
    std::array<SlabShape, kSmallClasses> shapes{};
    for (unsigned index = 0; index < kSmallClasses; ++index) shapes[index] = shape_of(index);
    return shapes;
}

constexpr std::array<SlabShape, kSmallClasses> kShapes = all_shapes();

// One more than there are blocks, never out: what is left over at a slab's end may be taken for one.
std::size_t states_of(unsigned index) { return (std::size_t{kShapes[index].blocks} + 1) << kShapes[index].stride; }

}  // namespace

Heap::~Heap() = default;

Arena* Heap::arena_of(std::uint64_t stream) noexcept {
    const auto found = arenas_.find(stream);
    return found == arenas_.end() ? nullptr : found->second.get();
}

// ---- records ----

Block* Heap::new_block() {
    if (spare_ != nullptr) {
        Block* const block = std::exchange(spare_, spare_->list_after);
        if (spare_ != nullptr) spare_->prefetch();  // the next one's
        return block;
    }
    if (unused_ == 0) {
        constexpr std::size_t kAtOnce = 64;
        records_.push_back(std::make_unique<Block[]>(kAtOnce));
        unused_ = kAtOnce;
    }
    return &records_.back()[--unused_];
}

// The states of a slab's record stay readable: they are all kIn, and another slab's once that has the record.
void Heap::recycle(Block* block) noexcept {
    block->list_after = spare_;
    spare_ = block;
}

std::atomic<std::uint8_t>* Heap::new_states(unsigned index, std::size_t nbytes) {
    States& states = states_[index];
    if (!states.free.empty()) {
        auto* const found = states.free.back();
        states.free.pop_back();
        return found;
    }
    if (states.free.capacity() <= states.made) states.free.reserve(2 * states.made + 1);  // giving back cannot fail
    std::unique_ptr<std::atomic<std::uint8_t>[]> memory(new std::atomic<std::uint8_t>[nbytes]);
    for (std::size_t i = 0; i < nbytes; ++i) memory[i].store(kIn, std::memory_order_relaxed);
    state_memory_.push_back(std::move(memory));
    ++states.made;
    return state_memory_.back().get();
}

// ---- large blocks ----

// What is behind `length` bytes of a block becomes the rest.
void Heap::cut(Block& block, std::size_t length, Block& rest) noexcept {
    rest.base = block.base + length;
    rest.length = block.length - length;
    rest.before = &block;
    rest.after = block.after;
    if (block.after != nullptr) block.after->before = &rest;
    block.after = &rest;
    block.length = length;
}

// Slabs are cut from the end of what is free, and blocks from its beginning: a slab stays as long as any of its small
// blocks, and would keep large ones on both sides apart.
Block* Heap::take_block(Arena& arena, std::size_t length, std::size_t alignment, bool at_end) {
    Block* const found = arena.find(length, alignment);
    if (found == nullptr) return nullptr;
    std::size_t front = Arena::front(*found, alignment);
    if (at_end) {
        const std::uintptr_t end = found->base + found->length;
        const std::size_t high = ((end - length) & ~(alignment - 1)) - found->base;
        if (high >= kLeastRest) front = high;
    }
    const std::size_t rest = found->length - front - length;
    const bool cuts_rest = rest >= kLeastRest || rest * kRestShare > length;
    Block* const taken = front != 0 ? new_block() : found;
    Block* last = nullptr;
    if (cuts_rest) {
        try {
            last = new_block();
        } catch (...) {
            if (taken != found) recycle(taken);
            throw;
        }
    }
    arena.unlink(*found);
    if (taken != found) {
        cut(*found, front, *taken);
        arena.link(*found);
    }
    if (last != nullptr) {
        cut(*taken, length, *last);
        arena.link(*last);
    }
    taken->use = Block::Use::Taken;
    return taken;
}

Block* Heap::give_block(Block* block, Arena& arena) noexcept {
    if (Block* const after = block->after;
        after != nullptr && after->use == Block::Use::Free && after->arena == &arena) {
        arena.unlink(*after);
        block->length += after->length;
        block->after = after->after;
        if (block->after != nullptr) block->after->before = block;
        recycle(after);
    }
    if (Block* const before = block->before;
        before != nullptr && before->use == Block::Use::Free && before->arena == &arena) {
        arena.unlink(*before);
        before->length += block->length;
        before->after = block->after;
        if (before->after != nullptr) before->after->before = before;
        recycle(block);
        block = before;
    }
    arena.link(*block);
    return block;
}

bool Heap::join_common(Arena& arena, std::size_t length) noexcept {
    const auto is_ours = [&](const Block* block) {
        return block != nullptr && block->use == Block::Use::Free &&
               (block->arena == &arena || block->arena == &common_);
    };
    Block* best = nullptr;  // the first of a run of such neighbours
    std::size_t least = SIZE_MAX;
    unsigned looked_at = 0;
    for (unsigned list = kLists; list-- != 0 && looked_at < kMostJoined;) {
        for (Block* block = common_.lists[list]; block != nullptr && looked_at < kMostJoined;
             block = block->list_after) {
            Block* first = block;
            for (++looked_at; is_ours(first->before); ++looked_at) first = first->before;
            std::size_t joined = 0;
            for (const Block* one = first; is_ours(one); one = one->after, ++looked_at) joined += one->length;
            if (joined < length || joined >= least) continue;
            best = first;
            least = joined;
        }
    }
    if (best == nullptr) return false;
    if (best->arena == &arena) best = best->after;
    for (Block* block = best; is_ours(block); block = block->after) {
        if (block->arena == &arena) continue;
        common_.unlink(*block);
        block = give_block(block, arena);
    }
    ++arena.insertions;
    return true;
}

// What was handed out by itself.
void Heap::merge(Arena& arena, const Item& item) noexcept {
    Block* const block = pages_.find(item.address);
    pages_.set(block->base, nullptr);
    give_block(block, arena);
}

// ---- kept blocks ----

void Heap::keep(Arena& arena, unsigned index, const Item* items, unsigned count) noexcept {
    ++arena.insertions;
    std::vector<Item>& bin = arena.bins[index];
    try {
        bin.insert(bin.end(), items, items + count);
    } catch (const std::bad_alloc&) {
        for (unsigned i = 0; i < count; ++i) merge(arena, items[i]);
        return;
    }
    arena.unmerged += count * size_of(index);
    arena.kept[index / 64] |= std::uint64_t{1} << index % 64;
    // Faster than they come, and few for the call that pays for it.
    for (unsigned left = 2 * count; left != 0 && arena.unmerged > kMostUnmerged; --left) {
        arena.merging = arena.next_kept(arena.merging);
        if (arena.merging == kClasses) arena.merging = arena.next_kept(0);
        merge_one(arena, arena.merging);
    }
}

unsigned Heap::take_kept(Arena& arena, unsigned index, Item* items, unsigned most) noexcept {
    std::vector<Item>& bin = arena.bins[index];
    const auto count = static_cast<unsigned>(std::min<std::size_t>(most, bin.size()));
    if (count == 0) return 0;
    std::copy(bin.end() - count, bin.end(), items);
    bin.resize(bin.size() - count);
    arena.unmerged -= count * size_of(index);
    if (bin.empty()) arena.kept[index / 64] &= ~(std::uint64_t{1} << index % 64);
    return count;
}

void Heap::merge_one(Arena& arena, unsigned index) noexcept {
    Item item{};
    (void)take_kept(arena, index, &item, 1);
    merge(arena, item);
}

bool Heap::merge_larger(Arena& arena, std::size_t length) noexcept {
    if (length > kLargestKept) return false;
    const unsigned index = arena.next_kept(class_of(length));
    if (index == kClasses) return false;
    merge_one(arena, index);
    return true;
}

bool Heap::take_large_from(Arena& arena, std::size_t size, unsigned index, std::size_t alignment, Item& item) {
    Block* const block = take_block(arena, size, alignment);
    if (block == nullptr) return false;
    block->size = size;
    block->index = static_cast<std::uint8_t>(index);
    block->reciprocal = 0;
    block->stride = 0;
    block->states = &block->own_state;
    block->own_state.store(kIn, std::memory_order_relaxed);
    pages_.set(block->base, block);
    item = {block->base, &block->own_state};
    return true;
}

// ---- slabs ----

Item Heap::item_of(const Block& slab, std::uint32_t number) noexcept {
    return {slab.base + number * slab.size, slab.states + (std::size_t{number} << slab.stride)};
}

Block* Heap::new_slab(Arena& arena, unsigned index, Arena& owner) {
    const SlabShape& shape = kShapes[index];
    auto* const states = new_states(index, states_of(index));
    Block* slab = nullptr;
    try {
        slab = take_block(arena, shape.length, kPage, true);
    } catch (...) {
        states_[index].free.push_back(states);
        throw;
    }
    if (slab == nullptr) {
        states_[index].free.push_back(states);
        return nullptr;
    }
    slab->size = size_of(index);
    slab->index = static_cast<std::uint8_t>(index);
    slab->reciprocal = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + slab->size - 1) / slab->size);
    slab->stride = shape.stride;
    slab->states = states;
    slab->use = Block::Use::Slab;
    slab->blocks = shape.blocks;
    slab->carved = 0;
    slab->home = 0;
    slab->arena = &owner;
    set_pages(*slab, slab);
    return slab;
}

// Of what is cut into blocks. The record may be longer, by what was not worth a record of its own: the next block may
// begin in that page.
void Heap::set_pages(const Block& slab, Block* to) noexcept {
    const std::uintptr_t end = slab.base + kShapes[slab.index].length;
    for (std::uintptr_t page = slab.base; page < end; page += kPage) pages_.set(page, to);
}

void Heap::put_in_bin(Arena& arena, Block& slab, const Item& item) noexcept {
    arena.bins[slab.index].push_back(item);  // reserved by the caller
    if (slab.home == 0) slab.arena = &arena;
    if (slab.arena != &arena) return;
    if (++slab.home == slab.blocks) arena.whole += slab.length;
}

void Heap::taken_from_bin(Arena& arena, const Item& item) noexcept {
    Block& slab = *pages_.find(item.address);
    if (slab.arena != &arena || slab.home == 0) return;
    if (slab.home-- == slab.blocks) arena.whole -= slab.length;
}

unsigned Heap::take_from(Arena& arena, unsigned index, Item* items, unsigned most) {
    std::vector<Item>& bin = arena.bins[index];
    unsigned count = 0;
    while (count < most && !bin.empty()) {
        items[count] = bin.back();
        bin.pop_back();
        taken_from_bin(arena, items[count++]);
    }
    Block*& slab = arena.carving[index];
    while (count < most && slab != nullptr) {
        items[count++] = item_of(*slab, slab->carved++);
        if (slab->carved == slab->blocks) slab = nullptr;
    }
    return count;
}

unsigned Heap::take(Arena& own, unsigned index, Item* items, unsigned most) {
    unsigned count = take_from(own, index, items, most);
    if (count == 0 && &own != &common_) count = take_from(common_, index, items, most);
    if (count != 0) return count;
    Block* slab = new_slab(own, index, own);
    if (slab == nullptr && merge_larger(own, kShapes[index].length + kPage)) slab = new_slab(own, index, own);
    if (slab == nullptr && &own != &common_) slab = new_slab(common_, index, own);
    if (slab == nullptr) return 0;
    own.carving[index] = slab;
    return take_from(own, index, items, most);
}

void Heap::prefetch(const Item* begin, const Item* end) const noexcept {
    for (const Item* item = begin; item != end; ++item) pages_.find(item->address)->prefetch();
    for (const Item* item = begin; item != end; ++item) {
        const Block& block = *pages_.find(item->address);
        if (block.use != Block::Use::Taken) continue;
        if (block.before != nullptr) block.before->prefetch();
        if (block.after != nullptr) block.after->prefetch();
    }
}

void Heap::give(Arena& arena, const Item* items, std::size_t count) {
    static_assert(kSmallClasses <= 64);
    std::array<std::uint32_t, kSmallClasses> more;  // of the classes that have a bit
    std::uint64_t classes = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Block& slab = *pages_.find(items[i].address);
        if (slab.use != Block::Use::Slab) continue;
        const std::uint64_t bit = std::uint64_t{1} << slab.index;
        more[slab.index] = (classes & bit) == 0 ? 1 : more[slab.index] + 1;
        classes |= bit;
    }
    for (; classes != 0; classes &= classes - 1) {
        const auto index = static_cast<unsigned>(__builtin_ctzll(classes));
        auto& bin = arena.bins[index];
        if (bin.capacity() - bin.size() >= more[index]) continue;
        bin.reserve(std::max(2 * bin.capacity(), bin.size() + more[index]));
    }
    for (std::size_t i = 0; i < count; ++i) {
        Block* const block = pages_.find(items[i].address);
        if (block->use == Block::Use::Slab) {
            put_in_bin(arena, *block, items[i]);
        } else {
            pages_.set(block->base, nullptr);
            give_block(block, arena);
        }
    }
    ++arena.insertions;
}

void Heap::give(Arena& arena, Batch& batch) {
    give(arena, batch.items.data(), batch.items.size());
    batch.items.clear();
    for (Block* const block : batch.blocks) give_block(block, arena);
    batch.blocks.clear();
}

void Heap::put(Arena& arena, Batches&& one) noexcept {
    Batch& batch = one.front();
    if (batch.empty()) return one.clear();
    if (arena.is_orphan) return orphans_.splice(orphans_.end(), one);
    if (arena.has_ended && arena.latest != nullptr) {
        batch.mark = arena.latest;
        return waiting_.add(std::move(one));
    }
    const bool is_anybodys = arena.has_ended || &arena == &common_;
    try {
        give(is_anybodys ? common_ : arena, batch);
        one.clear();
    } catch (const std::bad_alloc&) {
        batch.mark = nullptr;
        if (is_anybodys) return waiting_.add(std::move(one));
        arena.aside.splice(arena.aside.end(), one);
    }
}

void Heap::give_happened(std::uint64_t stream, const MarkPtr& mark) {
    Batches* const queue = waiting_.queue_of(stream);
    while (queue != nullptr && !queue->empty() && queue->front().mark == mark) {
        give(common_, queue->front());
        queue->pop_front();
    }
    waiting_.forget_if_empty(stream);
}

void Heap::detach(Arena& arena, Batch& batch) {
    std::size_t items = batch.items.size();
    std::size_t blocks = batch.blocks.size();
    for (const auto& bin : arena.bins) items += bin.size();
    for (const Batch& aside : arena.aside) {
        items += aside.items.size();
        blocks += aside.blocks.size();
    }
    for (const Block* slab : arena.carving) items += slab == nullptr ? 0 : slab->blocks - slab->carved;
    for (unsigned list = arena.next_list(0); list < kLists; list = arena.next_list(list + 1)) {
        for (const Block* block = arena.lists[list]; block != nullptr; block = block->list_after) ++blocks;
    }
    batch.items.reserve(items);
    batch.blocks.reserve(blocks);

    for (unsigned index = 0; index < kClasses; ++index) {
        auto& bin = arena.bins[index];
        for (const Item& item : bin) {
            if (index < kSmallClasses) taken_from_bin(arena, item);
            batch.items.push_back(item);
        }
        bin.clear();
    }
    arena.kept = {};
    arena.unmerged = 0;
    for (const Batch& aside : arena.aside) {
        batch.items.insert(batch.items.end(), aside.items.begin(), aside.items.end());
        batch.blocks.insert(batch.blocks.end(), aside.blocks.begin(), aside.blocks.end());
    }
    arena.aside.clear();
    for (Block*& slab : arena.carving) {
        for (; slab != nullptr && slab->carved < slab->blocks; ++slab->carved) {
            batch.items.push_back(item_of(*slab, slab->carved));
        }
        slab = nullptr;
    }
    for (unsigned list = arena.next_list(0); list < kLists; list = arena.next_list(list + 1)) {
        while (Block* const block = arena.lists[list]) {
            arena.unlink(*block);
            block->use = Block::Use::Limbo;
            batch.blocks.push_back(block);
        }
    }
}

bool Heap::detach_some(Arena& arena, std::size_t length, std::size_t alignment, std::size_t piece, Batch& batch) {
    batch.blocks.reserve(kMostPieces);
    std::size_t next = std::max(length, piece);
    for (std::size_t total = 0; total < piece && batch.blocks.size() < kMostPieces;) {
        Block* block = nullptr;
        try {
            block = take_block(arena, next, alignment);
        } catch (const std::bad_alloc&) {
            if (batch.blocks.empty()) throw;
            break;
        }
        if (block != nullptr) {
            total += block->length;
            block->use = Block::Use::Limbo;
            batch.blocks.push_back(block);
        } else if (next == length) {
            break;
        }
        next = length;  // not in one: in pieces that waste nothing
    }
    return !batch.blocks.empty();
}

void Heap::cut_up(Arena& arena) {
    for (unsigned index = 0; index < kSmallClasses; ++index) {
        Block*& slab = arena.carving[index];
        if (slab == nullptr || slab->home != slab->carved) continue;
        arena.bins[index].reserve(arena.bins[index].size() + slab->blocks - slab->carved);
        for (; slab->carved < slab->blocks; ++slab->carved) put_in_bin(arena, *slab, item_of(*slab, slab->carved));
        slab = nullptr;
    }
}

bool Heap::dissolve(Arena& arena) {
    const bool keeps = arena.unmerged != 0;
    for (unsigned index = arena.next_kept(0); index != kClasses; index = arena.next_kept(index))
        merge_one(arena, index);
    if (arena.whole == 0) return keeps;
    const auto is_whole = [&](const Item& item) {
        const Block& slab = *pages_.find(item.address);
        return slab.arena == &arena && slab.home == slab.blocks;
    };
    std::vector<Block*> slabs;
    slabs.reserve(arena.whole / (2 * kPage));
    for (unsigned index = 0; index < kSmallClasses; ++index) {
        auto& bin = arena.bins[index];
        const auto rest = std::partition(bin.begin(), bin.end(), [&](const Item& item) { return !is_whole(item); });
        for (auto item = rest; item != bin.end(); ++item) {
            Block* const slab = pages_.find(item->address);
            if (item->address == slab->base) slabs.push_back(slab);
        }
        bin.erase(rest, bin.end());
    }
    for (Block* const slab : slabs) {
        set_pages(*slab, nullptr);
        arena.whole -= slab->length;
        states_[slab->index].free.push_back(slab->states);
        slab->home = 0;
        give_block(slab, arena);
    }
    return true;
}

// ---- chunks ----

void Heap::add_chunk(void* ptr, std::size_t nbytes, Arena& arena) {
    chunks_.reserve(chunks_.size() + 1);
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    const std::uintptr_t aligned = (begin + kGrain - 1) & ~(kGrain - 1);
    const std::size_t length = (nbytes - (aligned - begin)) & ~(kGrain - 1);
    if (!pages_.prepare(aligned, length)) throw std::bad_alloc();
    Block* const block = new_block();
    block->base = aligned;
    block->length = length;
    block->before = nullptr;
    block->after = nullptr;
    chunks_.push_back({ptr, nbytes, block});
    arena.link(*block);
    // As if it had been freed there: whoever takes it over waits for what the stream has now.
    ++arena.insertions;
    arena.is_marked = false;
    reserved_ += nbytes;
    peak_ = std::max(peak_, reserved_);
}

bool Heap::remove_chunk(std::size_t most, Chunk& chunk) {
    auto chosen = chunks_.end();
    for (auto it = chunks_.begin(); it != chunks_.end(); ++it) {
        const Block& first = *it->first;
        if (first.use != Block::Use::Free || first.arena != &common_ || first.after != nullptr) continue;
        const auto is_better = [most](const Chunk& one, const Chunk& other) {
            if ((one.nbytes <= most) != (other.nbytes <= most)) return one.nbytes <= most;
            return one.nbytes <= most ? one.nbytes > other.nbytes : one.nbytes < other.nbytes;
        };
        if (chosen == chunks_.end() || is_better(*it, *chosen)) chosen = it;
    }
    if (chosen == chunks_.end()) return false;
    chunk = *chosen;
    common_.unlink(*chunk.first);
    chunk.first->use = Block::Use::Limbo;
    reserved_ -= chunk.nbytes;
    return true;
}

void Heap::forget_chunk(const Chunk& chunk) noexcept {
    const auto found =
        std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) { return c.first == chunk.first; });
    *found = chunks_.back();
    chunks_.pop_back();
    recycle(chunk.first);
}

void Heap::restore_chunk(const Chunk& chunk) noexcept {
    common_.link(*chunk.first);
    reserved_ += chunk.nbytes;
}

}  // namespace portamem::pool
