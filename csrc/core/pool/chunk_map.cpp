// SPDX-License-Identifier: MIT
// core/pool/chunk_map.cpp: enters chunks, and frees what no thread reads any more.
#include "chunk_map.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "portamem/c_api.h"

namespace portamem::pool {
namespace {

// Returns the table of an entry, and makes one that is all zero where there is none.
template <class Table>
Table* table_at(std::atomic<Table*>& entry) {
    Table* table = entry.load(std::memory_order_relaxed);
    if (table != nullptr) return table;
    table = static_cast<Table*>(std::calloc(1, sizeof(Table)));
    if (table == nullptr) throw std::bad_alloc();
    entry.store(table, std::memory_order_release);
    return table;
}

__attribute__((tls_model("initial-exec"))) __thread bool has_no_lock;  // ended, or there was no host memory

}  // namespace

std::array<std::atomic<ChunkMap::Middle*>, ChunkMap::kEntries> ChunkMap::top_{};
__thread OwnerLock* ChunkMap::own_lock_ = nullptr;

// Gives the reader of a thread that ends to a later thread.
struct ChunkMap::EndOfThread {
    Reader* reader = nullptr;

    ~EndOfThread() {
        has_no_lock = true;
        own_lock_ = nullptr;
        if (reader == nullptr || portamem_forked() != 0) return;
        ChunkMap& map = instance();
        const std::lock_guard<std::mutex> lock(map.mutex_);
        reader->is_in_use = false;
    }
};

ChunkMap& ChunkMap::instance() noexcept {
    static ChunkMap& map = *new ChunkMap;
    return map;
}

OwnerLock* ChunkMap::new_reader() noexcept {
    if (has_no_lock) return nullptr;
    has_no_lock = true;
    try {
        static thread_local EndOfThread end;
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto spare =
            std::find_if(readers_.begin(), readers_.end(), [](const Reader* each) { return !each->is_in_use; });
        if (spare != readers_.end()) {
            end.reader = *spare;
            end.reader->is_in_use = true;
        } else {
            readers_.reserve(readers_.size() + 1);
            end.reader = new Reader;
            readers_.push_back(end.reader);
        }
        own_lock_ = &end.reader->lock;
        has_no_lock = false;
    } catch (...) {
        return nullptr;  // the thread takes the map's lock for each look-up
    }
    return own_lock_;
}

void ChunkMap::Reading::begin() noexcept {
    const bool was_shut = own_ != nullptr;
    own_ = nullptr;
    if (portamem_forked() != 0) return;
    OwnerLock* const made = was_shut ? nullptr : instance().new_reader();
    if (made != nullptr && made->enter()) {
        own_ = made;
        return;
    }
    instance().mutex_.lock();
    has_lock_ = true;
}

const ChunkMap::Span* ChunkMap::find_in(const Array& array, std::uintptr_t address) noexcept {
    for (const auto& each : array) {
        const Span* const span = each.load(std::memory_order_acquire);
        if (span != nullptr && span->has(address)) return span;
    }
    return nullptr;
}

ChunkMap::Region& ChunkMap::region_for(std::uintptr_t address) {
    Middle* const middle = table_at(top_[address >> (kRegionBits + 2 * kBits)]);
    Leaf* const leaf = table_at((*middle)[address >> (kRegionBits + kBits) & (kEntries - 1)]);
    return (*leaf)[address >> kRegionBits & (kEntries - 1)];
}

std::vector<const ChunkMap::Span*> ChunkMap::spans_of(std::uintptr_t entry) {
    if (entry == 0) return {};
    if ((entry & kIsArray) == 0) return {reinterpret_cast<const Span*>(entry)};
    std::vector<const Span*> spans;
    for (const auto& each : *array_of(entry)) {
        if (const Span* span = each.load(std::memory_order_relaxed)) spans.push_back(span);
    }
    return spans;
}

bool ChunkMap::is_empty(std::uintptr_t entry) noexcept {
    if (entry == 0 || (entry & kIsArray) == 0) return entry == 0;
    const Array& array = *array_of(entry);
    return std::none_of(array.begin(), array.end(),
                        [](const auto& each) { return each.load(std::memory_order_relaxed) != nullptr; });
}

void ChunkMap::add(const void* ptr, std::size_t nbytes, const ChunkOwner& owner) {
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    if (nbytes == 0 || !covers(begin) || !covers(begin + nbytes - 1)) return;
    auto span = std::make_unique<Span>();
    span->begin = begin;
    span->end = begin + nbytes;
    span->owner = &owner;
    std::vector<std::unique_ptr<Array>> arrays;  // of the regions that have other chunks, in their order
    const std::uintptr_t first = begin >> kRegionBits;
    const std::uintptr_t last = (begin + nbytes - 1) >> kRegionBits;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::uintptr_t number = first; number <= last; ++number) {
        const Region& region = region_for(number << kRegionBits);
        const std::vector<const Span*> others = spans_of(region.load(std::memory_order_relaxed));
        if (others.empty()) continue;
        arrays.push_back(std::make_unique<Array>(others.size() + 1));
        Array& array = *arrays.back();
        array[0].store(span.get(), std::memory_order_relaxed);
        for (std::size_t i = 0; i < others.size(); ++i) array[i + 1].store(others[i], std::memory_order_relaxed);
    }
    const auto has_room_for = [](auto& list, std::size_t more) {
        if (list.capacity() - list.size() < more) list.reserve(2 * list.size() + more);
    };
    has_room_for(spans_, 1);
    has_room_for(retired_arrays_, last - first + 1);
    auto array = arrays.begin();
    for (std::uintptr_t number = first; number <= last; ++number) {
        Region& region = const_cast<Region&>(*region_of(number << kRegionBits));
        const std::uintptr_t before = region.load(std::memory_order_relaxed);
        if (is_empty(before)) {
            region.store(reinterpret_cast<std::uintptr_t>(span.get()), std::memory_order_release);
        } else {
            region.store(reinterpret_cast<std::uintptr_t>((array++)->release()) | kIsArray, std::memory_order_release);
        }
        if ((before & kIsArray) == 0) continue;
        retired_arrays_.push_back(array_of(before));
        ++retired_;
    }
    spans_.push_back(span.release());
    if (retired_ > kMostRetired) wait_locked();
}

ChunkMap::Span* ChunkMap::leaves(const void* ptr, const ChunkOwner& owner) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(ptr);
    const std::lock_guard<std::mutex> lock(mutex_);
    // The upstream may have given the address out again before the chunk that had it is removed.
    const auto found = std::find_if(spans_.begin(), spans_.end(), [&](const Span* span) {
        return span->begin == begin && span->owner == &owner && span->is_here.load(std::memory_order_relaxed);
    });
    if (found == spans_.end()) return nullptr;
    (*found)->is_here.store(false, std::memory_order_release);
    return *found;
}

// Takes a chunk out of its regions. It needs no host memory.
void ChunkMap::take_out(Span& span) noexcept {
    const std::uintptr_t last = (span.end - 1) >> kRegionBits;
    for (std::uintptr_t number = span.begin >> kRegionBits; number <= last; ++number) {
        Region& region = const_cast<Region&>(*region_of(number << kRegionBits));
        const std::uintptr_t entry = region.load(std::memory_order_relaxed);
        if ((entry & kIsArray) == 0) {
            region.store(0, std::memory_order_release);
            continue;
        }
        for (auto& each : *array_of(entry)) {
            if (each.load(std::memory_order_relaxed) == &span) each.store(nullptr, std::memory_order_release);
        }
    }
    span.next_retired = std::exchange(retired_spans_, &span);
    ++retired_;
}

void ChunkMap::remove(Span* span) noexcept {
    if (span == nullptr) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find(spans_.begin(), spans_.end(), span);
    *found = spans_.back();
    spans_.pop_back();
    take_out(*span);
    if (retired_ > kMostRetired) wait_locked();
}

void ChunkMap::remove_all(const ChunkOwner& owner) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto gone =
        std::partition(spans_.begin(), spans_.end(), [&](const Span* span) { return span->owner != &owner; });
    for (auto it = gone; it != spans_.end(); ++it) take_out(**it);
    spans_.erase(gone, spans_.end());
    wait_locked();
}

void ChunkMap::wait_for_readers() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    wait_locked();
}

// A thread that finds its lock shut waits for the map's, and then sees what there is now.
void ChunkMap::wait_locked() noexcept {
    for (Reader* reader : readers_) reader->lock.begin_shut();
    process_barrier();
    for (Reader* reader : readers_) reader->lock.end_shut();
    for (Reader* reader : readers_) reader->lock.open();
    while (retired_spans_ != nullptr) delete std::exchange(retired_spans_, retired_spans_->next_retired);
    for (const Array* array : retired_arrays_) delete array;
    retired_arrays_.clear();
    retired_ = 0;
}

}  // namespace portamem::pool
