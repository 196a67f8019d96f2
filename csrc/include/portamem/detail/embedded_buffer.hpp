// SPDX-License-Identifier: MIT
// portamem/detail/embedded_buffer.hpp: buffers whose objects an embedding language keeps for the next buffer.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "portamem/buffer.hpp"
#include "portamem/detail/embedder.hpp"

PORTAMEM_OPEN

namespace detail {

/// A language that makes and drops many buffers keeps their objects, each with a blank Buffer, and opens one of those
/// where it would make another. Every function but reopen answers false, or null, unless the Buffer is whole and the
/// only holder of its memory: nothing was done then.
struct Embedded {
    /// A closed buffer of no memory.
    static Buffer blank() { return Buffer(Allocation::blank(), 0); }
    static bool is_blank(const Buffer& buffer) noexcept {
        return buffer.is_only_holder() && buffer.allocation_->is_blank();
    }

    /// Opens a blank buffer with memory that the resource has cached for the stream; false where it has none. `refs`
    /// keep the resource and the stream alive, and are let go of after the memory; `stream` stays where it is.
    static bool reopen(Buffer& buffer, MemoryResource& resource, std::size_t nbytes,
                       const std::shared_ptr<Stream>& stream, std::size_t alignment,
                       const EmbedderRefs& refs) noexcept {
        if (!buffer.allocation_->reopen(resource, nbytes, stream, alignment, refs)) return false;
        buffer.nbytes_ = nbytes;
        return true;
    }
    /// The same with memory that the resource has given out already.
    static void reopen(Buffer& buffer, MemoryResource& resource, void* ptr, std::size_t nbytes,
                       const std::shared_ptr<Stream>& stream, const EmbedderRefs& refs) noexcept {
        buffer.allocation_->reopen(resource, ptr, nbytes, stream, refs);
        buffer.nbytes_ = nbytes;
    }

    /// Closes a buffer whose memory its resource takes back with no call and no wait. The refs are the caller's then.
    static bool close_cached(Buffer& buffer, EmbedderRefs& refs) noexcept {
        return buffer.is_only_holder() && buffer.allocation_->close_cached(refs);
    }

    /// Takes the memory out of a buffer, to close it without the language's lock. Others find the buffer closed until
    /// the memory is attached again.
    static std::shared_ptr<Allocation> detach_unique(Buffer& buffer) noexcept {
        return buffer.is_only_holder() ? std::move(buffer.allocation_) : nullptr;
    }
    static void reattach(Buffer& buffer, std::shared_ptr<Allocation> memory) noexcept {
        buffer.allocation_ = std::move(memory);
    }
    /// Closes memory that was detached. Throws as Buffer::close does.
    static bool close_unshared(Allocation& memory, EmbedderRefs& refs) { return memory.close_unshared(refs); }
    /// The same for memory that the program has dropped; false where work may use it, which the destructor waits for.
    static bool drop_unshared(Allocation& memory, EmbedderRefs& refs) { return memory.drop_unshared(refs); }
};

}  // namespace detail

PORTAMEM_CLOSE
