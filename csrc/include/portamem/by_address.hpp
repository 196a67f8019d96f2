// SPDX-License-Identifier: MIT
// portamem/by_address.hpp: the resource and the size of memory that is known by its address alone.
//
// The process has one registry of its resources, in libportamem. The address is one that an allocation returned and
// that is out; it is found whichever module, thread or resource of this backend gave it.
// - Where one resource takes its memory of another, both may know the address. The outermost is found, the one that the
//   program called. The chunk of a pool is the pool's: it is no block of the resource below.
// - An adaptor is found where it knows its buffers, as portamem's do. An adaptor of the program's that only passes
//   memory on is passed over. To be found, it derives from KnowingAdaptor or overrides do_find.
// - A resource that no std::shared_ptr holds is not found, because it could end during the look-up.
// - A pool's block is found without a lock and without a count of references, unless a resource that knows its own
//   blocks stands over the pool. Other resources are asked one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "portamem/mr/detail/table_resource.hpp"

PORTAMEM_OPEN

/// Describes a block that is out.
struct KnownBlock {
    const void* base = nullptr;
    std::size_t nbytes = 0;  ///< as they were asked for
    std::shared_ptr<MemoryResource> resource;
};

namespace detail {

/// Finds blocks, and frees them.
struct ByAddress {
    /// Represents a block that the library found, and holds its resource.
    class Found {
      public:
        Found(const void* ptr, bool inside)
            : is_known_(portamem_find_block(rt::BackendId, ptr, inside, &block_) != 0) {}
        ~Found() {
            if (is_known_) block_.resource.ops->release(block_.resource.self);
        }
        Found(const Found&) = delete;
        Found& operator=(const Found&) = delete;

        explicit operator bool() const noexcept { return is_known_; }
        bool is_of_this_module() const noexcept { return block_.resource.ops == shared_ops(); }
        const portamem_known_block& block() const noexcept { return block_; }

        std::shared_ptr<MemoryResource> resource() const {
            if (is_of_this_module()) return static_cast<Shared*>(block_.resource.self)->resource;
            const int device = block_.resource.ops->device_id(block_.resource.self);
            const portamem_resource handle = block_.resource;
            const auto stream = Stream::default_stream(device < 0 ? current_device() : device);
            auto* const foreign = new ForeignMemoryResource(handle, stream->device());
            handle.ops->retain(handle.self);  // before anything can fail: the wrapper's end releases it
            std::shared_ptr<MemoryResource> wrapper(foreign);
            foreign->adopt(const_cast<void*>(block_.base), block_.nbytes, *stream);
            return wrapper;
        }

      private:
        portamem_known_block block_{};
        const bool is_known_;
    };

    /// Frees a pool's block where the pool has what that needs at hand. `stream` is a Stream or a bare handle.
    template <class OnStream>
    static bool deallocated_at_hand(void* ptr, const OnStream& stream) {
        std::uint32_t* entered = nullptr;
        void* const found = portamem_enter_pool(known_ops(), ptr, &entered);
        if (found == nullptr) return false;
        const bool is_done = static_cast<MemoryResource*>(found)->deallocate_cached_at(ptr, stream);
        portamem_leave_pool(entered);
        return is_done;
    }

    [[noreturn]] static void refuse_unknown() {
        refuse_forked();
        throw std::invalid_argument(
            "no memory resource of this process has memory out at this address: it was freed before, it lies inside of "
            "a block, or it is not portamem's");
    }

    static rt::Stream_t handle_of(const std::shared_ptr<Stream>& stream) { return stream->handle(); }
    static rt::Stream_t handle_of(rt::Stream_t handle) { return handle; }

    template <class OnStream>
    static void deallocate(void* ptr, const OnStream& stream) {
        const Found found(ptr, false);
        if (!found) refuse_unknown();
        const std::size_t nbytes = found.block().nbytes;
        const portamem_resource& other = found.block().resource;
        if (found.is_of_this_module()) return resource_of_table(other.self).deallocate(ptr, nbytes, stream);
        check(rt::Error_t{other.ops->deallocate(other.self, ptr, nbytes, handle_of(stream))}, "deallocate");
    }
};

}  // namespace detail

/// Returns the block that an address is in, or nothing. An address inside of a block is known to pools, and to
/// FixedSizeMemoryResource, MonotonicMemoryResource and CallbackMemoryResource; others know the beginning of a block
/// only, as everything does with PORTAMEM_DEBUG=1.
inline std::optional<KnownBlock> block_of(const void* ptr) {
    refuse_forked();
    const detail::ByAddress::Found found(ptr, true);
    if (!found) return std::nullopt;
    return KnownBlock{found.block().base, found.block().nbytes, found.resource()};
}

/// Returns the resource of the block that begins at an address and is out, or null. For a resource of another module it
/// is a new object each time, which has that one block out.
inline std::shared_ptr<MemoryResource> resource_of(const void* ptr) {
    refuse_forked();
    const detail::ByAddress::Found found(ptr, false);
    return found ? found.resource() : nullptr;
}

/// Returns the bytes that were asked for in the block that begins at an address, or nothing where none is out there.
inline std::optional<std::size_t> size_of(const void* ptr) {
    refuse_forked();
    if (!detail::debug_on) {
        if (const std::size_t nbytes = portamem_size_at_hand(rt::BackendId, ptr)) return nbytes;
    }
    const detail::ByAddress::Found found(ptr, false);
    return found ? std::optional(found.block().nbytes) : std::nullopt;
}

/// Gives memory back by its address alone, behind the work on `stream`, as MemoryResource::deallocate does with the
/// size. It does nothing for a null pointer, because null does not say which resource counts the allocation of 0 bytes.
/// Throws std::invalid_argument where no resource has the address out, and as MemoryResource::deallocate does.
inline void deallocate(void* ptr, const std::shared_ptr<Stream>& stream) {
    if (ptr == nullptr) return;
    if (__builtin_expect(detail::ByAddress::deallocated_at_hand(ptr, stream), 1)) return;
    detail::ByAddress::deallocate(ptr, stream);
}

/// Does the same with a bare stream handle; null is the default stream of the resource's device.
inline void deallocate(void* ptr, rt::Stream_t handle) {
    if (ptr == nullptr) return;
    if (__builtin_expect(detail::ByAddress::deallocated_at_hand(ptr, handle), 1)) return;
    detail::ByAddress::deallocate(ptr, handle);
}

PORTAMEM_CLOSE
