// SPDX-License-Identifier: MIT
// portamem/mr/fixed_size_memory_resource.hpp: equal blocks, carved from an upstream's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
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

/// Gives blocks of one size, for objects of which there are many. An allocation of any size up to that takes one block.
/// The memory is of the upstream's kind.
/// - It is stream-ordered where the upstream is, or where the host does not reach the memory: a block freed on a stream
///   is that stream's next one, at once, and another stream's behind an event. The host, which follows no stream, waits
///   for the stream before it uses such a block.
/// - Otherwise a block is handed out again only when the work that was on the stream at its free has run. Freeing waits
///   for nothing.
/// - A wrong free (a block that is not out, an address inside of one, another resource's address, another size) throws
///   std::invalid_argument, and nothing has happened. Knowing the sizes takes 8 bytes of host memory for each block.
class FixedSizeMemoryResource : public CountedMemoryResource {
  public:
    /// - block_size: the most bytes that a block holds; blocks begin at multiples of kAlignment.
    /// - blocks_per_chunk: how many blocks the resource takes from the upstream at a time, or fewer where the upstream
    ///   is short of memory; 0 means as many as fill 1 MiB.
    /// - Throws std::invalid_argument where the upstream is null or closed, and for a size of 0 or beyond any memory.
    FixedSizeMemoryResource(std::shared_ptr<MemoryResource> upstream, std::size_t block_size,
                            std::size_t blocks_per_chunk = 0)
        : CountedMemoryResource(traits(upstream)),
          upstream_(std::move(upstream)),
          block_size_(block_size),
          stride_(stride_of(block_size)),
          blocks_per_chunk_(blocks_per_chunk != 0 ? blocks_per_chunk : std::max<std::size_t>(1, kChunkSize / stride_)) {
        if (blocks_per_chunk_ > kMost / stride_) {
            throw std::invalid_argument(std::to_string(blocks_per_chunk_) + " blocks of " + std::to_string(block_size) +
                                        " bytes are larger than any memory");
        }
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<FixedSizeMemoryResource> create(std::shared_ptr<MemoryResource> upstream,
                                                           std::size_t block_size, std::size_t blocks_per_chunk = 0) {
        return detail::shared<FixedSizeMemoryResource>(std::move(upstream), block_size, blocks_per_chunk);
    }

    // Memory that was released from its buffer and never given back is leaked, so that no other allocation gets it.
    ~FixedSizeMemoryResource() override {
        ReturningChunks::leave_all([this] { return take_free_chunks(0); });
    }

    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return upstream_; }
    std::size_t block_size() const noexcept { return block_size_; }
    std::size_t blocks_per_chunk() const noexcept { return blocks_per_chunk_; }

    /// Return the bytes of the chunks, and those of them in blocks that are not out.
    std::size_t reserved() const {
        refuse_forked();
        const std::lock_guard<std::mutex> lock(mutex_);
        return reserved_;
    }
    std::optional<std::size_t> cached() const override {
        refuse_forked();
        const std::lock_guard<std::mutex> lock(mutex_);
        return free_blocks_ * stride_;
    }

    /// Gives chunks of which no block is out back to the upstream, until at most `keep` bytes are reserved. It waits
    /// for the work that used them. Throws std::invalid_argument while a stream that freed blocks is captured, and what
    /// the upstream throws. The chunks that have not gone back then go at the next call.
    void trim(std::size_t keep = 0) {
        refuse_forked();
        refuse_captured_lanes();
        give_back_chunks(take_free_chunks(keep));
    }

  protected:
    MemoryResource* below(std::size_t number) const noexcept override {
        return number == 0 ? upstream_.get() : nullptr;
    }
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        if (nbytes > block_size_ + kRedzones) {
            throw std::invalid_argument("blocks of this resource hold " + std::to_string(block_size_) + " bytes, not " +
                                        std::to_string(nbytes) + ": take larger blocks, or a PoolMemoryResource");
        }
        if (options.alignment > kAlignment) {
            throw std::invalid_argument("the resource aligns to " + std::to_string(kAlignment) + " bytes, not to " +
                                        std::to_string(options.alignment) + ": take a PoolMemoryResource");
        }
        if (nbytes == 0) return nullptr;
        (void)stream->handle();  // refuses a closed stream, and another thread's per-thread one
        for (;;) {
            if (void* ptr = take_free(nbytes, stream)) return ptr;
            try {
                return take_of_new_chunk(nbytes, stream);
            } catch (const OutOfMemory&) {
                if (!wait_for_freed()) throw;
            }
        }
    }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        if (ptr == nullptr) return;
        StreamEnd::Dropped dropped;
        const std::lock_guard<std::mutex> lock(mutex_);
        auto [chunk, index] = block_at(ptr);
        if (chunk == nullptr) throw std::invalid_argument("this is not a block of the resource");
        if (chunk->asked[index] == 0) {
            throw std::invalid_argument("the block is free already: it was given back before");
        }
        detail::refuse_other_size(chunk->asked[index], nbytes);
        if (!is_stream_ordered() && detail::Settled::covers(ptr)) {
            if (common_.size() == common_.capacity()) common_.reserve(2 * common_.size() + 1);
            common_.push_back({ptr, nullptr});
            return note_free(*chunk, index);
        }
        // Work that was submitted to a captured stream has not even begun to run.
        if (!is_stream_ordered()) stream->refuse_capture_if_open("deallocate");
        Lane& lane = lane_of(stream, dropped);
        if (lane.blocks.size() == lane.blocks.capacity()) lane.blocks.reserve(2 * lane.blocks.size() + 1);
        lane.end.note(stream);
        lane.blocks.push_back(ptr);
        note_free(*chunk, index);
    }

    std::optional<std::size_t> do_size_of(const void* ptr) const override {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto [chunk, index] = block_at(ptr);
        if (chunk == nullptr || chunk->asked[index] == 0) return std::nullopt;
        return chunk->asked[index];
    }

    portamem_address do_find(const void* ptr) const override {
        const std::lock_guard<std::mutex> lock(mutex_);
        return found_at(ptr);
    }

    void at_close() override { give_back_chunks(take_free_chunks(0)); }

  private:
    static constexpr std::size_t kChunkSize = std::size_t{1} << 20;
    static constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
    static constexpr std::size_t kFewLanes = 16;
    inline static const std::size_t kRedzones = detail::debug_on ? 2 * PORTAMEM_DEBUG_REDZONE : 0;

    struct Chunk {
        UpstreamChunk memory;
        detail::LightVector<std::size_t> asked;  // bytes of each block that is out; 0: it is free
        std::size_t free = 0;
    };

    // Holds blocks behind an event. A null event counts as happened.
    struct Batch {
        std::shared_ptr<Event> mark;
        detail::LightVector<void*> blocks;
    };

    // Holds the blocks that were freed on one stream.
    struct Lane {
        StreamEnd end;
        detail::LightVector<void*>
            blocks;  // stream-ordered: that stream's to reuse; otherwise freed since the last mark
        detail::LightVector<Batch> marked;  // not stream-ordered: waiting for its event
    };

    // Says where a block is; a null chunk says that there is none.
    struct Place {
        Chunk* chunk;
        std::size_t index;
    };

    // Represents a block that any stream may have. Its event has happened, and is kept to tell the order checker so.
    struct FreeBlock {
        void* ptr;
        std::shared_ptr<Event> mark;
    };

    static MemoryTraits traits(const std::shared_ptr<MemoryResource>& upstream) {
        MemoryTraits traits = detail::traits_over(upstream);
        traits.granularity = 1;
        traits.free_may_wait = rt::FreeMayWait;  // when a block goes back, its chunk may go back with it
        traits.stream_ordered = traits.stream_ordered || !traits.host_accessible;
        return traits;
    }

    static std::size_t stride_of(std::size_t block_size) {
        if (block_size == 0) throw std::invalid_argument("a block holds at least 1 byte");
        if (block_size > kMost) throw std::invalid_argument("the block size is larger than any memory");
        return (block_size + kRedzones + kAlignment - 1) / kAlignment * kAlignment;
    }

    // Returns a block that is at hand, or becomes so without new memory and without waiting; null otherwise.
    void* take_free(std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        FreeBlock block{};
        {
            StreamEnd::Dropped dropped;
            const std::lock_guard<std::mutex> lock(mutex_);
            const auto own = is_stream_ordered() ? lanes_.find(stream->identity()) : lanes_.end();
            if (own != lanes_.end() && !own->second.blocks.empty()) {
                return given_out(pop(own->second.blocks), nbytes);
            }
            if (common_.empty()) {
                stream->refuse_capture("allocate");
                const RelaxedCapture beside(stream->device());
                if (is_stream_ordered()) return steal(nbytes, stream, dropped);
                for (auto& [identity, lane] : lanes_) collect(lane);
                if (common_.empty()) return nullptr;
            }
            block = pop(common_);
            given_out(block.ptr, nbytes);
        }
        if (block.mark) detail::tell_order_checker_done(*block.mark, block.ptr, stride_);
        return block.ptr;
    }

    // Takes half of the blocks of the stream that has most, behind one event on it. Returns null where no stream has
    // any.
    void* steal(std::size_t nbytes, const std::shared_ptr<Stream>& thief, StreamEnd::Dropped& dropped) {
        Lane* from = nullptr;
        for (auto& [identity, lane] : lanes_) {
            const bool more = !lane.blocks.empty() && (from == nullptr || lane.blocks.size() > from->blocks.size());
            if (more && !lane.end.is_captured()) from = &lane;
        }
        if (from == nullptr) return nullptr;
        detail::LightVector<void*>& blocks = from->blocks;
        const auto half = blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2);
        const auto mark = from->end.mark();
        Lane& to = lane_of(thief, dropped, from);
        to.blocks.reserve(to.blocks.size() + static_cast<std::size_t>(blocks.end() - half));
        if (mark) thief->wait(*mark);
        to.end.note(thief);
        for (auto block = half; block != blocks.end(); ++block) to.blocks.push_back(*block);
        blocks.erase(half, blocks.end());
        return given_out(pop(to.blocks), nbytes);
    }

    // Marks the blocks that were freed on a stream since the last mark, and passes on those whose mark has happened.
    void collect(Lane& lane) {
        if (!lane.blocks.empty() && !lane.end.is_captured()) {
            // First: where there is no host memory, the blocks stay where they are.
            if (lane.marked.size() == lane.marked.capacity()) lane.marked.reserve(2 * lane.marked.size() + 1);
            auto mark = lane.end.mark();
            lane.marked.push_back({std::move(mark), std::move(lane.blocks)});
            lane.blocks = {};
        }
        const detail::UntrackedQueries own;
        Batch* batch = lane.marked.begin();
        for (; batch != lane.marked.end(); ++batch) {
            if (batch->mark && !batch->mark->has_happened()) break;
            common_.reserve(common_.size() + batch->blocks.size());
            for (void* block : batch->blocks) common_.push_back({block, batch->mark});
            batch->blocks.clear();  // in case that the next batch's event cannot be asked
        }
        lane.marked.erase(lane.marked.begin(), batch);
    }

    // Waits until a freed block can be handed out again; returns false where no block was freed.
    bool wait_for_freed() {
        if (is_stream_ordered()) return false;  // take_free found every free block without waiting
        std::shared_ptr<Event> oldest;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            for (auto& [identity, lane] : lanes_) {
                collect(lane);
                if (!oldest && !lane.marked.empty()) oldest = lane.marked.front().mark;
            }
            if (!common_.empty()) return true;
        }
        const detail::UntrackedQueries own;
        if (oldest) oldest->wait();
        return oldest != nullptr;
    }

    // Takes a new chunk, with no lock held while the upstream runs. Where memory is short it takes smaller chunks, and
    // at last one that holds a single block, without rounding its size up.
    void* take_of_new_chunk(std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        const std::size_t least = block_size_ + kRedzones;
        UpstreamChunk memory;
        for (std::size_t wanted = blocks_per_chunk_ * stride_; memory.ptr == nullptr;) {
            try {
                memory = {detail::open_upstream(upstream_)->allocate_chunk(wanted, stream), wanted, stream};
            } catch (const OutOfMemory&) {
                if (wanted <= least) throw;
                const std::size_t half = wanted / stride_ / 2;
                wanted = half != 0 ? half * stride_ : least;
            }
        }
        try {
            return add_chunk(memory, nbytes, stream);
        } catch (...) {
            upstream_->deallocate(memory.ptr, memory.nbytes, stream);
            throw;
        }
    }

    void* add_chunk(const UpstreamChunk& memory, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        const std::size_t count = std::max<std::size_t>(1, memory.nbytes / stride_);
        auto* const first = static_cast<char*>(memory.ptr);
        Chunk chunk{memory, detail::LightVector<std::size_t>(count, 0), count};
        StreamEnd::Dropped dropped;
        const std::lock_guard<std::mutex> lock(mutex_);
        // Fresh memory of a stream-ordered upstream counts as freed on the stream that it came from.
        Lane* lane = upstream_->is_stream_ordered() ? &lane_of(stream, dropped) : nullptr;
        if (lane != nullptr) {
            lane->blocks.reserve(lane->blocks.size() + count);
            lane->end.note(stream);
        } else {
            common_.reserve(common_.size() + count);
        }
        chunks_[reinterpret_cast<std::uintptr_t>(memory.ptr)] = std::move(chunk);
        for (std::size_t i = count; i-- > 0;) {
            if (lane != nullptr) {
                lane->blocks.push_back(first + i * stride_);
            } else {
                common_.push_back({first + i * stride_, nullptr});
            }
        }
        reserved_ += memory.nbytes;
        free_blocks_ += count;
        return given_out(lane != nullptr ? pop(lane->blocks) : pop(common_).ptr, nbytes);
    }

    template <class T>
    static T pop(detail::LightVector<T>& from) {
        T last = std::move(from.back());
        from.pop_back();
        return last;
    }

    void note_free(Chunk& chunk, std::size_t index) {
        chunk.asked[index] = 0;
        ++chunk.free;
        ++free_blocks_;
    }

    void* given_out(void* ptr, std::size_t nbytes) {
        auto [chunk, index] = block_at(ptr);
        chunk->asked[index] = nbytes;
        --chunk->free;
        --free_blocks_;
        return ptr;
    }

    // Returns the chunk that has a block at this address, and the block's number there; a null chunk where none has.
    Place block_at(const void* ptr) const {
        const auto address = reinterpret_cast<std::uintptr_t>(ptr);
        auto after = chunks_.upper_bound(address);
        if (after == chunks_.begin()) return {nullptr, 0};
        auto& [begin, chunk] = *--after;
        const std::size_t offset = address - begin;
        if (offset >= chunk.memory.nbytes || offset % stride_ != 0) return {nullptr, 0};
        return {&chunk, offset / stride_};
    }

    // Returns what is known of an address. The caller holds the lock.
    portamem_address found_at(const void* ptr) const {
        const auto address = reinterpret_cast<std::uintptr_t>(ptr);
        auto after = chunks_.upper_bound(address);
        if (after == chunks_.begin()) return {};
        const auto& [begin, chunk] = *--after;
        const std::size_t offset = address - begin;
        if (offset >= chunk.memory.nbytes) return {};
        const std::size_t index = offset / stride_;
        const std::size_t within = offset - index * stride_;
        if (index >= chunk.asked.size() || within >= chunk.asked[index]) return {PORTAMEM_ADDRESS_CHUNK, nullptr, 0};
        return {PORTAMEM_ADDRESS_BLOCK, static_cast<const char*>(ptr) - within, chunk.asked[index]};
    }

    // Returns the lane of a stream, and makes it where there is none. Lanes of streams that are gone are cleared away
    // meanwhile, except `kept`.
    Lane& lane_of(const std::shared_ptr<Stream>& stream, StreamEnd::Dropped& dropped, const Lane* kept = nullptr) {
        const auto found = lanes_.find(stream->identity());
        if (found != lanes_.end()) return found->second;
        if (lanes_.size() >= crowded_) {
            for (auto it = lanes_.begin(); it != lanes_.end();) {
                const auto lane = it;
                ++it;
                if (&lane->second != kept && is_over(lane->second, dropped)) lanes_.erase(lane);
            }
            crowded_ = 2 * lanes_.size() + kFewLanes;
        }
        return lanes_[stream->identity()];
    }

    // Returns whether a lane is empty and stays so. Any stream may have the blocks that its stream has left.
    bool is_over(Lane& lane, StreamEnd::Dropped& dropped) {
        lane.end.retire(dropped);
        if (!lane.end.is_retired() || !lane.end.has_run()) return false;
        collect(lane);
        return lane.blocks.empty() && lane.marked.empty();
    }

    void refuse_captured_lanes() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& [identity, lane] : lanes_) {
            if (lane.blocks.empty() || !lane.end.is_captured()) continue;
            throw std::invalid_argument(
                "trim is forbidden while a stream that freed blocks is captured: do it before or after the capture");
        }
    }

    // Takes out the chunks of which no block is out, together with the streams and marks to wait for.
    ReturningChunks take_free_chunks(std::size_t keep) {
        ReturningChunks taken(upstream_);
        const std::lock_guard<std::mutex> lock(mutex_);
        detail::LightVector<std::uintptr_t> going;
        std::size_t stays = reserved_;
        for (const auto& [begin, chunk] : chunks_) {
            if (stays <= keep) break;
            if (chunk.free != chunk.asked.size()) continue;
            going.push_back(begin);
            stays -= chunk.memory.nbytes;
        }
        taken.chunks.reserve(going.size());
        const auto goes = [&](void* block) {
            const Chunk* chunk = block_at(block).chunk;
            return std::binary_search(going.begin(), going.end(), reinterpret_cast<std::uintptr_t>(chunk->memory.ptr));
        };
        for (const auto& [identity, lane] : lanes_) {
            if (lane.blocks.any_of(goes)) taken.ends.add(identity, lane.end);
            for (const Batch& batch : lane.marked) {
                if (batch.mark && batch.blocks.any_of(goes)) taken.marks.push_back(batch.mark);
            }
        }
        // Nothing below throws: the streams and marks to wait for are known before a block is taken out.
        for (auto& [identity, lane] : lanes_) {
            lane.blocks.erase_if(goes);
            for (Batch& batch : lane.marked) batch.blocks.erase_if(goes);
        }
        common_.erase_if([&](const FreeBlock& block) {
            if (!goes(block.ptr)) return false;
            if (block.mark) detail::tell_order_checker_done(*block.mark, block.ptr, stride_);
            return true;
        });
        for (const std::uintptr_t begin : going) {
            const auto found = chunks_.find(begin);
            free_blocks_ -= found->second.free;
            taken.chunks.push_back(found->second.memory);
            chunks_.erase(found);
        }
        try {
            taken.add(std::move(left_));
        } catch (const std::bad_alloc&) {
            return taken;  // they are left for the next call
        }
        return taken;
    }

    void give_back_chunks(ReturningChunks chunks) {
        const std::size_t before = chunks.nbytes();
        std::exception_ptr refused;
        try {
            chunks.give_back();
        } catch (...) {
            refused = std::current_exception();
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        reserved_ -= before - chunks.nbytes();
        if (!refused) return;
        left_.add(std::move(chunks));
        std::rethrow_exception(refused);
    }

    const std::shared_ptr<MemoryResource> upstream_;
    const std::size_t block_size_;
    const std::size_t stride_;
    const std::size_t blocks_per_chunk_;
    mutable std::mutex mutex_;                         // guards what follows; never held while the upstream runs
    detail::NumberMap<std::uintptr_t, Chunk> chunks_;  // by address
    detail::NumberMap<std::uint64_t, Lane> lanes_;     // by the stream's identity
    detail::LightVector<FreeBlock> common_;
    std::size_t crowded_ = kFewLanes;
    std::size_t free_blocks_ = 0;
    std::size_t reserved_ = 0;
    ReturningChunks left_{upstream_};  // chunks that the upstream refused to take back
};

PORTAMEM_CLOSE
