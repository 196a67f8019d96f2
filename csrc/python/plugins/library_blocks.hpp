// SPDX-License-Identifier: MIT
// python/plugins/library_blocks.hpp: the memory that a library has out and that its own frees do not say enough about.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <portamem/mr/detail/parts_by_address.hpp>
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
};

/// Keeps blocks by their addresses.
class LibraryBlocks {
  public:
    /// Throws std::bad_alloc, and nothing is noted.
    void add(const void* ptr, LibraryBlock block) {
        change(ptr, [&](LibraryBlock& noted) { noted = std::move(block); });
    }

    /// Changes the note of a block, which is empty where none was made yet. Throws as add does.
    template <class Function>
    void change(const void* ptr, Function&& function) {
        Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        function(part.blocks[ptr]);
        part.size.store(part.blocks.size(), std::memory_order_relaxed);
    }

    /// Takes a block out before its memory goes back, because its address may be handed out again at once.
    std::optional<LibraryBlock> take(const void* ptr) {
        Part& part = parts_.of(ptr);
        const std::lock_guard<std::mutex> lock(part.mutex);
        const auto found = part.blocks.find(ptr);
        if (found == part.blocks.end()) return std::nullopt;
        std::optional<LibraryBlock> block(std::move(found->second));
        part.blocks.erase(found);
        part.size.store(part.blocks.size(), std::memory_order_relaxed);
        return block;
    }

    /// Returns false only where the block is not noted. The thread that frees a block sees what the one that allocated
    /// it has noted.
    bool may_know(const void* ptr) const noexcept { return parts_.of(ptr).size.load(std::memory_order_relaxed) != 0; }

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

    portamem::detail::PartsByAddress<Part> parts_;
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
