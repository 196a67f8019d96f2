// SPDX-License-Identifier: MIT
// portamem/mr/monotonic_memory_resource.hpp: memory that is taken piece by piece and goes back all at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/mr/counted_memory_resource.hpp"
#include "portamem/mr/detail/live_blocks.hpp"
#include "portamem/mr/detail/upstream_chunks.hpp"

PORTAMEM_OPEN

/// Carves allocations one behind the other out of chunks of its upstream. The memory is of the upstream's kind.
/// - deallocate only counts the buffer as free. No memory is used again before release(), which is allowed when nothing
///   is out. So the resource fits the memory of a step or of a request.
/// - No stream waits for another, with one exception: before its first use of a chunk of a stream-ordered upstream, a
///   stream waits for the one that took the chunk.
/// - A wrong free (a buffer that is not out, an address inside of one, another resource's address, another size) throws
///   std::invalid_argument, and nothing has happened. For that the resource keeps 16 bytes of host memory (up to twice
///   that while their table grows) for each buffer since the last release(). A free looks its buffer up by bisection.
class MonotonicMemoryResource : public CountedMemoryResource {
  public:
    static constexpr std::size_t kInitialSize = std::size_t{1} << 20;

    /// initial_size: the bytes of the first chunk, which the first allocation takes. Each further chunk is twice as
    /// large, or larger for a larger request, or just large enough where memory is short. Throws std::invalid_argument
    /// for 0, and where the upstream is null or closed.
    explicit MonotonicMemoryResource(std::shared_ptr<MemoryResource> upstream, std::size_t initial_size = kInitialSize)
        : CountedMemoryResource(traits_of_parts(upstream)),
          upstream_(std::move(upstream)),
          initial_size_(initial_size),
          next_size_(initial_size) {
        if (initial_size == 0)
            throw std::invalid_argument("the initial size of a monotonic resource is at least 1 byte");
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<MonotonicMemoryResource> create(std::shared_ptr<MemoryResource> upstream,
                                                           std::size_t initial_size = kInitialSize) {
        return detail::shared<MonotonicMemoryResource>(std::move(upstream), initial_size);
    }

    // Memory that was released from its buffer and never given back is leaked, so that no other allocation gets it.
    ~MonotonicMemoryResource() override {
        if (out_ == 0) ReturningChunks::leave_all([this] { return take_all(); });
    }

    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return upstream_; }
    std::size_t initial_size() const noexcept { return initial_size_; }

    /// Return the bytes of the chunks, and those that are left in the chunk that serves now.
    std::size_t reserved() const {
        refuse_forked();
        const std::lock_guard<std::mutex> lock(mutex_);
        return reserved_;
    }
    std::optional<std::size_t> cached() const override {
        refuse_forked();
        const std::lock_guard<std::mutex> lock(mutex_);
        return chunks_.empty() ? 0 : chunks_[current_].room();
    }

    /// Gives all chunks back to the upstream, behind every stream on which memory was freed. Each chunk goes back on
    /// the stream that it was taken on, or on the default stream where that one has ended; the host waits for all other
    /// streams. Throws ExportError while memory is out, std::invalid_argument while one of those streams is captured,
    /// and what the upstream throws. The chunks that have not gone back then go at the next call.
    void release() {
        refuse_forked();
        give_back_all();
    }

  protected:
    MemoryResource* below(std::size_t number) const noexcept override {
        return number == 0 ? upstream_.get() : nullptr;
    }
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        if (nbytes == 0) return nullptr;
        (void)stream->handle();  // refuses a closed stream, and another thread's per-thread one
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!chunks_.empty()) {
                if (void* ptr = carve(chunks_[current_], nbytes, stream, options.alignment)) return ptr;
            }
        }
        stream->refuse_capture("allocate");
        UpstreamChunk memory = grow(nbytes, stream, options.alignment);
        try {
            return carve_first(memory, nbytes, stream, options.alignment);
        } catch (...) {
            upstream_->deallocate(memory.ptr, memory.nbytes, stream);
            throw;
        }
    }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        if (ptr == nullptr) return;
        StreamEnd::Dropped dropped;
        const std::lock_guard<std::mutex> lock(mutex_);
        Piece& piece = piece_at(ptr);
        if (piece.nbytes == 0) {
            throw std::invalid_argument("the buffer is free already: it was given back before");
        }
        detail::refuse_other_size(piece.nbytes, nbytes);
        ends_.note(stream, dropped);
        piece.nbytes = 0;
        --out_;
    }

    std::optional<std::size_t> do_size_of(const void* ptr) const override {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const Chunk& chunk : chunks_) {
            const std::size_t number = chunk.piece_at(ptr);
            if (number == chunk.pieces.size()) continue;
            const std::size_t nbytes = chunk.pieces[number].nbytes;
            return nbytes == 0 ? std::nullopt : std::optional(nbytes);
        }
        return std::nullopt;
    }

    portamem_address do_find(const void* ptr) const override {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const Chunk& chunk : chunks_) {
            const std::size_t offset = chunk.offset_of(ptr);
            if (offset >= chunk.memory.nbytes) continue;
            const auto after = std::upper_bound(chunk.pieces.begin(), chunk.pieces.end(), offset,
                                                [](std::size_t at, const Piece& piece) { return at < piece.offset; });
            if (after == chunk.pieces.begin()) return {PORTAMEM_ADDRESS_CHUNK, nullptr, 0};
            const Piece& piece = *std::prev(after);
            if (offset - piece.offset >= piece.nbytes) return {PORTAMEM_ADDRESS_CHUNK, nullptr, 0};
            const char* const base = static_cast<const char*>(chunk.memory.ptr) + piece.offset;
            return {PORTAMEM_ADDRESS_BLOCK, base, piece.nbytes};
        }
        return {};
    }

    void at_close() override { give_back_all(); }

  private:
    static MemoryTraits traits_of_parts(const std::shared_ptr<MemoryResource>& upstream) {
        MemoryTraits traits = detail::traits_over(upstream);
        traits.granularity = 1;
        return traits;
    }

    // Represents a buffer that was carved.
    struct Piece {
        std::size_t offset = 0;
        std::size_t nbytes = 0;  // 0: it was given back
    };

    struct Chunk {
        UpstreamChunk memory;
        detail::LightVector<Piece> pieces;  // by their offsets
        std::size_t used = 0;
        StreamEnd allocated;         // of a stream-ordered upstream: other streams wait for it
        detail::NumberTree ordered;  // the identities of streams that are ordered behind it

        std::size_t room() const noexcept { return memory.nbytes - used; }
        // Returns an offset below `used` for an address in the carved part, and a larger one for other addresses.
        std::size_t offset_of(const void* ptr) const noexcept {
            return reinterpret_cast<std::uintptr_t>(ptr) - reinterpret_cast<std::uintptr_t>(memory.ptr);
        }
        // Returns the number of the piece that begins at an address; the number of all pieces where none does.
        std::size_t piece_at(const void* ptr) const noexcept {
            const std::size_t offset = offset_of(ptr);
            const auto found = std::lower_bound(pieces.begin(), pieces.end(), offset,
                                                [](const Piece& piece, std::size_t at) { return piece.offset < at; });
            const bool is_here = found != pieces.end() && found->offset == offset;
            return is_here ? static_cast<std::size_t>(found - pieces.begin()) : pieces.size();
        }
    };

    // Returns the piece that begins at an address. The caller holds the lock.
    Piece& piece_at(const void* ptr) {
        for (Chunk& chunk : chunks_) {
            if (chunk.offset_of(ptr) >= chunk.used) continue;
            const std::size_t number = chunk.piece_at(ptr);
            if (number != chunk.pieces.size()) return chunk.pieces[number];
            throw std::invalid_argument(
                "no buffer of the monotonic resource begins at this address: free its beginning");
        }
        throw std::invalid_argument("the monotonic resource has not given out this memory");
    }

    // Carves the next piece of a chunk, or returns null where it does not fit. The caller holds the lock.
    void* carve(Chunk& chunk, std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        const auto begin = reinterpret_cast<std::uintptr_t>(chunk.memory.ptr);
        alignment = std::max(alignment, kAlignment);
        const std::size_t offset = ((begin + chunk.used + alignment - 1) & ~(std::uintptr_t{alignment} - 1)) - begin;
        if (offset > chunk.memory.nbytes || nbytes > chunk.memory.nbytes - offset) return nullptr;
        if (upstream_->is_stream_ordered() && chunk.ordered.count(stream->identity()) == 0) {
            stream->refuse_capture("allocate");
            if (const auto mark = chunk.allocated.mark()) stream->wait(*mark);
            chunk.ordered.insert({stream->identity(), 0});
        }
        chunk.pieces.push_back({offset, nbytes});
        chunk.used = offset + nbytes;
        ++out_;
        return static_cast<char*>(chunk.memory.ptr) + offset;
    }

    // Takes a new chunk, with no lock held. Where memory is short it takes no more than is needed.
    UpstreamChunk grow(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        const std::size_t most = std::numeric_limits<std::size_t>::max();
        const std::size_t slack = alignment > kAlignment ? alignment - kAlignment : 0;
        const std::size_t needed = nbytes > most - slack ? most : nbytes + slack;
        const std::size_t wanted = std::max(needed, next_size());
        try {
            return {detail::open_upstream(upstream_)->allocate_chunk(wanted, stream), wanted, stream};
        } catch (const OutOfMemory&) {
            if (wanted == needed) throw;
        }
        return {detail::open_upstream(upstream_)->allocate_chunk(needed, stream), needed, stream};
    }

    void* carve_first(const UpstreamChunk& memory, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                      std::size_t alignment) {
        Chunk chunk;
        chunk.memory = memory;
        if (upstream_->is_stream_ordered()) {
            chunk.allocated.note(stream);
            chunk.ordered.insert({stream->identity(), 0});
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        chunks_.reserve(chunks_.size() + 1);
        void* ptr = carve(chunk, nbytes, stream, alignment);
        chunks_.push_back(std::move(chunk));
        // The chunk with more room serves next, so that one large allocation does not waste the rest of a chunk.
        if (chunks_.back().room() >= chunks_[current_].room()) current_ = chunks_.size() - 1;
        reserved_ += memory.nbytes;
        if (next_size_ <= std::numeric_limits<std::size_t>::max() / 2) next_size_ *= 2;
        return ptr;
    }

    std::size_t next_size() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return next_size_;
    }

    // Throws std::bad_alloc, and nothing has happened then.
    ReturningChunks take_all() {
        left_.chunks.reserve(left_.chunks.size() + chunks_.size());
        left_.ends.reserve(ends_);
        ReturningChunks all = std::exchange(left_, ReturningChunks(upstream_));
        for (Chunk& chunk : chunks_) all.chunks.push_back(std::move(chunk.memory));
        all.ends.add(std::exchange(ends_, {}));
        chunks_.clear();
        current_ = 0;
        next_size_ = initial_size_;
        return all;
    }

    void give_back_all() {
        std::unique_lock<std::mutex> lock(mutex_);
        if (out_ != 0) {
            throw ExportError("the monotonic resource still has " + std::to_string(out_) +
                              " allocation(s) out: free those first");
        }
        ReturningChunks all = take_all();
        lock.unlock();
        const std::size_t before = all.nbytes();
        std::exception_ptr refused;
        try {
            all.give_back();
        } catch (...) {
            refused = std::current_exception();
        }
        lock.lock();
        reserved_ -= before - all.nbytes();
        if (!refused) return;
        left_.add(std::move(all));
        std::rethrow_exception(refused);
    }

    const std::shared_ptr<MemoryResource> upstream_;
    const std::size_t initial_size_;
    mutable std::mutex mutex_;  // guards what follows; never held while the upstream runs
    std::size_t next_size_;
    detail::LightVector<Chunk> chunks_;
    std::size_t current_ = 0;  // the index of the chunk that serves
    std::size_t out_ = 0;
    std::size_t reserved_ = 0;
    StreamEnds ends_;
    ReturningChunks left_{upstream_};  // chunks that the upstream refused to take back
};

PORTAMEM_CLOSE
