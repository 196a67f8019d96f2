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

/// Serves a language that makes and drops many buffers. It keeps their objects, each with a blank Buffer, and opens one
/// of those where it would make another. Every function but reopen returns false or null, and does nothing, unless the
/// Buffer is whole and the only holder of its memory.
struct Embedded {
    /// Returns a closed buffer of no memory.
    static Buffer blank() { return Buffer(Allocation::blank(), 0); }
    static bool is_blank(const Buffer& buffer) noexcept {
        return buffer.is_only_holder() && buffer.allocation_->is_blank();
    }

    /// Opens a blank buffer with memory that the resource has cached for the stream; returns false where it has none.
    /// `refs` keep the resource and the stream alive, and are let go after the memory. `stream` has to stay where it
    /// is.
    static bool reopen(Buffer& buffer, MemoryResource& resource, std::size_t nbytes,
                       const std::shared_ptr<Stream>& stream, std::size_t alignment,
                       const EmbedderRefs& refs) noexcept {
        if (!buffer.allocation_->reopen(resource, nbytes, stream, alignment, refs)) return false;
        buffer.nbytes_ = nbytes;
        return true;
    }
    /// Does the same with memory that the resource has given out already.
    static void reopen(Buffer& buffer, MemoryResource& resource, void* ptr, std::size_t nbytes,
                       const std::shared_ptr<Stream>& stream, const EmbedderRefs& refs) noexcept {
        buffer.allocation_->reopen(resource, ptr, nbytes, stream, refs);
        buffer.nbytes_ = nbytes;
    }

    /// Closes a buffer whose memory its resource takes back with no call and no wait. The caller then has to let go of
    /// the refs.
    static bool close_cached(Buffer& buffer, EmbedderRefs& refs) noexcept {
        return buffer.is_only_holder() && buffer.allocation_->close_cached(refs);
    }

    /// Takes the memory out of a buffer, so that the language can close it without its lock. Other threads find the
    /// buffer closed until the memory is attached again.
    static std::shared_ptr<Allocation> detach_unique(Buffer& buffer) noexcept {
        return buffer.is_only_holder() ? std::move(buffer.allocation_) : nullptr;
    }
    static void reattach(Buffer& buffer, std::shared_ptr<Allocation> memory) noexcept {
        buffer.allocation_ = std::move(memory);
    }
    /// Closes memory that was detached. Throws as Buffer::close does.
    static bool close_unshared(Allocation& memory, EmbedderRefs& refs) { return memory.close_unshared(refs); }
    /// Does the same for memory that the program has dropped. Returns false where work may use it; the destructor
    /// handles that.
    static bool drop_unshared(Allocation& memory, EmbedderRefs& refs) { return memory.drop_unshared(refs); }
};

}  // namespace detail

PORTAMEM_CLOSE
