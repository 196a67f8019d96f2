// SPDX-License-Identifier: MIT
// python/plugs/library_blocks.hpp: the memory that a library has out and that its own frees do not say enough about.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <portamem/mr/memory_resource.hpp>

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Says where a block came from, and what has to run before it goes back. Where only its users are noted, the resource
/// and the stream are null, and the library's free says the rest.
struct LibraryBlock {
    std::shared_ptr<MemoryResource> resource;
    std::shared_ptr<Stream> stream;   ///< behind whose work the memory goes back
    std::vector<rt::Stream_t> users;  ///< further streams of the same device whose work uses the memory
    std::size_t nbytes = 0;
    bool is_of_graph = false;  ///< a graph that is replayed uses the memory
};

/// Keeps blocks by their addresses, in parts with a lock each, so that threads seldom meet.
class LibraryBlocks {
  public:
    /// Throws std::bad_alloc, and nothing is noted.
    void add(const void* ptr, LibraryBlock block) {
        Part& part = part_of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        part.blocks.insert_or_assign(ptr, std::move(block));
        part.size.store(part.blocks.size(), std::memory_order_relaxed);
    }

    /// Takes a block out before its memory goes back, because its address may be handed out again at once.
    std::optional<LibraryBlock> take(const void* ptr) {
        Part& part = part_of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        const auto found = part.blocks.find(ptr);
        if (found == part.blocks.end()) return std::nullopt;
        std::optional<LibraryBlock> block(std::move(found->second));
        part.blocks.erase(found);
        part.size.store(part.blocks.size(), std::memory_order_relaxed);
        return block;
    }

    /// Returns false only where no block near this address is noted. The thread that frees a block sees what the one
    /// that allocated it has noted.
    bool may_know(const void* ptr) const noexcept { return part_of(ptr).size.load(std::memory_order_relaxed) != 0; }

    std::size_t size() const noexcept {
        std::size_t sum = 0;
        for (const Part& part : parts_) sum += part.size.load(std::memory_order_relaxed);
        return sum;
    }

  private:
    struct alignas(64) Part {
        std::mutex mutex;  // a leaf
        std::unordered_map<const void*, LibraryBlock> blocks;
        std::atomic<std::size_t> size{0};
    };

    static std::size_t index_of(const void* ptr) noexcept {
        const auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(ptr)) * 0x9E3779B97F4A7C15u;
        return bits >> 60;
    }
    Part& part_of(const void* ptr) noexcept { return parts_[index_of(ptr)]; }
    const Part& part_of(const void* ptr) const noexcept { return parts_[index_of(ptr)]; }

    std::array<Part, 16> parts_;
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
