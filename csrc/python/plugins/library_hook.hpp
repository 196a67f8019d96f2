// SPDX-License-Identifier: MIT
// python/plugins/library_hook.hpp: memory of a resource for a library that asks by C functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "../bindings.hpp"
#include "graph_memory.hpp"
#include "library_blocks.hpp"

namespace portamem::python {
inline namespace PORTAMEM_BACKEND {

/// Runs a function without the GIL, whether or not the calling thread holds it: libraries call both ways.
template <class Function>
auto without_gil(Function&& function) {
    std::optional<WithoutGil> released;
    if (holds_gil()) released.emplace();
    return function();
}

/// Gives memory to a library and takes it back. It is thread-safe, and works with the GIL and without.
///
/// Memory goes back to the resource that gave it, whatever is current by then, behind the work of the stream that it
/// was allocated on and of those that note_use named. The usual call finds memory at hand, and takes no lock.
class LibraryHook {
  public:
    /// resource: serves the device that it is of. Other devices, and every device where it is null, are served by the
    /// resource that is current at each allocation.
    explicit LibraryHook(std::shared_ptr<MemoryResource> resource) : resource_(std::move(resource)) {}
    LibraryHook(const LibraryHook&) = delete;
    LibraryHook& operator=(const LibraryHook&) = delete;

    const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }

    /// Takes memory for work on a stream of the library's. It is null for 0 bytes. Throws as MemoryResource::allocate
    /// does. A captured stream gets memory too.
    void* allocate(std::size_t nbytes, int device, rt::Stream_t handle);
    /// Takes it back from a library that says again what it asked for. Throws nothing: where the resource refuses, the
    /// memory stays allocated, and sys.unraisablehook is told.
    void deallocate(void* ptr, std::size_t nbytes, int device, rt::Stream_t handle) noexcept;

    /// These are for a library whose free names only the address: the hook notes each block.
    void* allocate_noted(std::size_t nbytes, const std::shared_ptr<Stream>& stream);
    void deallocate_noted(void* ptr) noexcept;

    /// Notes that work on another stream of the memory's device uses a block, which goes back behind that work.
    void note_use(void* ptr, rt::Stream_t user);

    /// Gives back what the resource has cached, where it is a pool, and what had to be held.
    void trim();
    /// Limits the resource to a share of its device's memory. Throws std::invalid_argument where it is no pool.
    void set_share(double share, int device);

    GraphMemory& graphs() noexcept { return graphs_; }
    /// Gives back what only this graph used (GraphMemory::release), and the blocks that were held for it.
    void end_graph(int device, GraphMemory::Id id);

    /// Returns how many blocks are noted, and how many wait for a capture or a graph to end before they go back.
    std::size_t noted() const noexcept { return blocks_.size(); }
    std::size_t held() const;

  private:
    bool serves(int device) const noexcept { return resource_ != nullptr && resource_->device() == device; }
    std::shared_ptr<MemoryResource> resource_for(int device);
    LibraryBlock take_anew(std::size_t nbytes, const std::shared_ptr<Stream>& stream, void** ptr);
    void note(void* ptr, LibraryBlock block);
    void give_back(void* ptr, LibraryBlock block);
    void deallocate_behind_users(void* ptr, const LibraryBlock& block);
    bool has_to_wait(const LibraryBlock& block) const;
    void hold(void* ptr, LibraryBlock&& block);
    void give_back_held();

    const std::shared_ptr<MemoryResource> resource_;
    LibraryBlocks blocks_;
    GraphMemory graphs_;
    mutable std::mutex mutex_;  // guards held_; a leaf
    std::list<std::pair<void*, LibraryBlock>> held_;
    std::atomic<std::size_t> held_count_{0};
};

}  // namespace PORTAMEM_BACKEND
}  // namespace portamem::python
