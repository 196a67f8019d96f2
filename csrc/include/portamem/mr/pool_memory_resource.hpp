// SPDX-License-Identifier: MIT
// portamem/mr/pool_memory_resource.hpp: a pool over another resource's memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "portamem/detail/hearing.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/pool_callbacks.hpp"
#include "portamem/mr/detail/pool_ending.hpp"
#include "portamem/mr/detail/pool_passthrough.hpp"
#include "portamem/mr/detail/shared_table.hpp"

PORTAMEM_OPEN

/// Cuts stream-ordered memory from chunks of any upstream, which it keeps alive. It is thread-safe. A wrong free (a
/// block that is not out, an address inside of one, another resource's address, another size than was asked for) throws
/// std::invalid_argument, and nothing has happened.
///
/// Order:
/// - Memory that only devices reach is used again at once on the stream that it was freed on.
/// - Memory that the host reaches is handed out again only when an event recorded at or after its free has happened, or
///   when the runtime says that all work before such an event has run.
/// - Another stream takes memory over behind one event on the stream that it was freed on. The host never waits for
///   that.
/// - A stream that ends leaves its memory behind its last event.
/// - The pool waits for the whole device where memory was freed on a stream that no thread can mark any more: when
///   another thread closes a Buffer of a per-thread default stream. For memory left on such streams it does so before
///   it reports that there is no memory, and at trim().
/// - A foreign handle with no owner and no promised end (Stream::from_handle) is known by its stream's number, for
///   which each allocation asks the runtime. Each free records an event where there is no number, on the first uses,
///   and for memory that the host reaches. Where the handle has become another stream's, memory freed before waits for
///   all work of the device, on a thread of portamem's.
/// - The pool takes a free on a captured stream where it needs no event. It serves an allocation on one from memory at
///   hand, and otherwise refuses it before any vendor call.
///
/// Cost:
/// - A block of up to 1 MiB that only devices reach, and that the calling thread freed on the same stream, is found
///   again without a lock, a vendor call or a write to memory that other threads write. Threads and streams share
///   nothing until a cache is empty or full.
/// - Larger blocks belong to the stream: every thread that uses the stream finds them, and takes the pool's lock for
///   that.
/// - For memory that the host reaches, a free asks the runtime whether its stream is captured. For each 64 of them, or
///   16 MiB, and for an allocation that finds nothing else, the pool asks whether the stream's work has run. If it has,
///   all of that memory may be used again; if not, the pool records an event and takes its lock. With a release policy,
///   or a limit that pools share, each free of such memory takes the lock.
///
/// Waste of blocks:
/// - A block is at most 255 bytes or 6.25 % larger than was asked for (above 64 MiB: less than 2 MiB), and up to
///   `alignment` larger for an alignment above 256. Between 33 KiB and 64 MiB it may be 18.75 % larger, where the
///   thread has such a block at hand and none that fits better.
/// - A block is not cut from a free one that is more than 16 times as large (and more than 4 MiB, and an eighth of the
///   pool) while the upstream has another place. The rest of a free block stays with the piece cut from it where it is
///   less than a 32nd of that piece.
/// - Under a limit, or where the upstream has little left, a block may have exactly the bytes that were asked for:
///   where there is no room for many small blocks, or for the rounded size of a large one. The pool's lock is taken for
///   it.
///
/// Waste of free memory:
/// - A thread's cache for a stream holds at most 80 MiB of freed memory, in blocks of up to 1 MiB, and up to 16 MiB
///   that came for the next allocations. Other threads empty it when memory runs out, and at trim(). The cache of a
///   per-thread default stream is emptied behind all work of the device, because no other thread can mark that stream.
/// - A stream keeps up to 32 MiB of freed blocks of 33 to 256 KiB and about 80 MiB of larger ones above 1 MiB unmerged,
///   until a call needs them together.
/// - Before the upstream is asked, the free memory of the calling thread's cache and of its stream is merged. If the
///   pool would have more than a bound, chunks without a live block go back first. Only chunks of streams whose work
///   has run do, because the call waits for nothing. On one stream the bound is the most that was ever out at once and
///   a sixth of it, at least 4 MiB. With n streams the bound is n times the most that was out, at most four times, and
///   4 MiB.
/// - Arrays on one stream that grow and shrink all the time reserve about twice what is live, and up to four times
///   where that is a few MiB.
///
/// Chunks:
/// - A chunk is a power of two between an eighth and a quarter of what the pool has, from 2 to 256 MiB. A chunk for
///   large blocks is at most 9/8 of their bytes plus 2 MiB; a chunk for small ones is up to an eighth of the pool.
///   Where the free memory would do if it were in one piece, chunks have room for up to a sixth of the pool more, in
///   blocks of that size.
/// - Blocks of up to 32 KiB have chunks of their own where the pool has more than 64 MiB.
/// - Nothing is reserved before it is asked for, except PoolOptions::initial_size.
/// - The pool's own records take 5 bytes of host memory for each block of 256 bytes, and about 90 for a larger one;
///   above 2 MiB, 4 more for each MiB.
///
/// Settings:
/// - PORTAMEM_POOL=off: each allocation goes straight to the upstream, and comes straight back.
/// - PORTAMEM_POOL_LIMIT: the limit of all pools of the process together that are over a device's memory and were made
///   without a limit (portamem/abi/pool_settings.h).
class PoolMemoryResource : public MemoryResource {
  public:
    /// Throws std::invalid_argument where the upstream is null or closed, a setting of pools cannot be parsed, or the
    /// initial size is larger than the limit. Throws as allocate does where the initial size cannot be had.
    explicit PoolMemoryResource(std::shared_ptr<MemoryResource> upstream, PoolOptions options = {})
        : PoolMemoryResource(Empty{}, std::move(upstream), std::move(options)) {
        reserve(runtime_->options().initial_size);  // the pool exists: if this throws, it ends as any other
        portamem_pool_show_resource(pool_);
    }

    ~PoolMemoryResource() override {
        portamem_pool_forget_resource(pool_);
        detail::unlocked([this] {
            using detail::Hearing;
            // The reaper makes a wait that is left, later.
            const bool hears = detail::hearing() == Hearing::Dropping;
            const detail::HearingScope leaving(hears ? Hearing::Leaving : detail::hearing());
            runtime_->call_off_due();
            detail::EndingPool::give_back(runtime_);
        });
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<PoolMemoryResource> create(std::shared_ptr<MemoryResource> upstream,
                                                      PoolOptions options = {}) {
        return detail::shared<PoolMemoryResource>(std::move(upstream), std::move(options));
    }

    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return runtime_->upstream(); }
    PoolMemoryResource* as_pool() noexcept override { return this; }
    /// Returns the most bytes that the pool reserves. For a pool without a limit of its own it is the present
    /// PORTAMEM_POOL_LIMIT, which the pools of the device share; 0 where none is set.
    std::size_t limit() const {
        const std::size_t own = own_limit();
        return own != 0 ? own : runtime_->release().shared_limit_bytes();
    }
    /// Changes the most bytes that the pool reserves; 0 takes its limit away. For a pool that was made without a limit,
    /// PORTAMEM_POOL_LIMIT still counts. Where the pool has reserved more, nothing goes back by itself: allocations
    /// that need a new chunk throw OutOfMemory until it has less. trim(limit) gives chunks without a live block back.
    void set_limit(std::size_t limit) {
        refuse_forked();
        if (passthrough_) passthrough_->set_limit(limit);
        portamem_pool_set_limit(pool_, limit);
    }

    /// Returns whether a memory checker is told which bytes are in use: AddressSanitizer for memory that the host
    /// reaches, compute-sanitizer for plain device memory on CUDA. Returns nothing until the first allocation shows it.
    /// With PORTAMEM_POOL=off the checkers see each allocation themselves, and are told nothing.
    std::optional<bool> is_checked() const noexcept {
        const detail::PoolAnnotations* annotations = runtime_->annotations();
        if (passthrough_ || annotations == nullptr || !annotations->is_heard()) return false;
        return annotations->is_followed() ? std::optional(true) : std::nullopt;
    }

    /// Returns the pool's figures. Throws Error in a forked child.
    PoolStats stats() const {
        refuse_forked();
        return figures();
    }

    /// Returns every piece of every chunk, by address, as it was at one moment.
    std::vector<PoolPiece> snapshot() const {
        refuse_forked();
        if (passthrough_) return passthrough_->snapshot();
        std::vector<PoolPiece> pieces;
        const auto add = [](void* self, const portamem_pool_piece* p) {
            PoolPiece piece;
            piece.chunk = p->chunk;
            piece.chunk_nbytes = p->chunk_bytes;
            piece.address = p->address;
            piece.nbytes = p->nbytes;
            piece.stream = p->stream;
            piece.state = static_cast<PoolPieceState>(p->state);
            piece.blocks = p->blocks;
            piece.live = p->live;
            piece.block_nbytes = p->block_bytes;
            static_cast<std::vector<PoolPiece>*>(self)->push_back(piece);
        };
        if (portamem_pool_snapshot(pool_, add, &pieces) != PORTAMEM_POOL_OK) throw std::bad_alloc();
        return pieces;
    }

    /// Sets the peak to what is reserved now.
    void reset_peak() {
        refuse_forked();
        if (passthrough_) passthrough_->reset_peak();
        portamem_pool_reset_peak(pool_);
    }

    /// Gives chunks without a live block back to the upstream until at most `keep` bytes are reserved, and waits for
    /// the work that used the pool's free memory. Other threads may allocate meanwhile.
    void trim(std::size_t keep = 0) {
        refuse_forked();
        answer(portamem_pool_trim(pool_, keep), 0);
    }
    /// Does the same, but waits for the work of one stream only, and for another thread's trim. Memory that is free on
    /// another stream stays where that stream's work has not run, or where it is another thread's own default stream.
    /// The upstream may wait itself, as Free of plain memory does. Throws std::invalid_argument for a stream of another
    /// device, and for one that is captured.
    void trim(std::size_t keep, const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        refuse_stream_of_another_device(*stream);
        stream->refuse_capture_if_open("trim");
        const bool is_here = !stream->is_closed() && !stream->is_elsewhere();
        void* const here = is_here ? address_of(stream) : nullptr;
        answer(portamem_pool_trim_stream(pool_, stream->memory_identity(), here, keep), 0);
    }

    std::size_t live_buffers() const noexcept override { return live().first; }
    std::size_t live_bytes() const noexcept override { return live().second; }
    bool is_closed() const noexcept override { return portamem_pool_is_closed(pool_) != 0; }

    /// Returns the bytes that are reserved and not out.
    std::optional<std::size_t> cached() const override {
        const std::size_t all = reserved();
        const std::size_t used = live_bytes();
        return all > used ? all - used : 0;
    }
    /// Returns the bytes that the pool holds of its upstream. stats() has that figure too, and costs more.
    std::size_t reserved() const {
        refuse_forked();
        if (passthrough_) return passthrough_->stats().reserved;
        std::uint64_t now = 0;
        std::uint64_t peak = 0;
        portamem_pool_reserved(runtime_->pool(), &now, &peak);
        return now;
    }

  protected:
    // A pool cuts a request for a chunk out of its own chunks, like any other.
    void* do_allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) final {
        if (auto* const use = stream->handle_use(); __builtin_expect(use != nullptr, 0)) {
            if (use->is_of_this_thread() && !use->is_same()) {
                const detail::HandleUse::Unsure without(*use);
                return take_anyhow(nbytes, stream, options.alignment);
            }
        }
        return take_anyhow(nbytes, stream, options.alignment);
    }

    void do_deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) final {
        if (__builtin_expect(has_watcher(), 0)) return give_back_watched(ptr, nbytes, stream);
        give_back(ptr, nbytes, stream);
    }

    void* do_allocate_cached(std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                             std::size_t alignment) noexcept final {
        if (has_watcher() || alignment != kAlignment) return nullptr;
        if (auto* const use = stream->handle_use(); __builtin_expect(use != nullptr, 0)) {
            if (!use->is_of_this_thread() || !use->is_same()) return nullptr;
        }
        return portamem_pool_allocate_cached(pool_, nbytes, stream->memory_identity());
    }
    bool do_deallocate_cached(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) noexcept final {
        return !has_watcher() && portamem_pool_deallocate_cached(pool_, ptr, nbytes, stream->memory_identity()) != 0;
    }

    bool do_deallocate_cached_at(void* ptr, const std::shared_ptr<Stream>& stream) noexcept final {
        return !has_watcher() && portamem_pool_deallocate_at(pool_, ptr, stream->memory_identity()) != 0;
    }

    bool do_resize_in_place(void* ptr, std::size_t from, std::size_t to,
                            const std::shared_ptr<Stream>& stream) noexcept final {
        if (has_watcher() || stream->is_elsewhere()) return false;
        if (auto* const use = stream->handle_use(); use != nullptr && !(use->is_of_this_thread() && use->is_same()))
            return false;
        return portamem_pool_resize(pool_, ptr, from, to, stream->memory_identity()) != 0;
    }

    std::optional<std::size_t> do_size_of(const void* ptr) const final {
        if (passthrough_) return passthrough_->size_of(ptr);
        const std::size_t nbytes = portamem_pool_size_of(pool_, ptr);
        return nbytes == 0 ? std::nullopt : std::optional(nbytes);
    }

    portamem_address do_find(const void* ptr) const final {
        if (passthrough_) return passthrough_->find(ptr);
        portamem_address found{};
        (void)portamem_pool_find(pool_, ptr, &found);
        return found;
    }
    MemoryResource* below(std::size_t number) const noexcept final { return number == 0 ? upstream().get() : nullptr; }
    void cover() noexcept final { portamem_pool_cover(pool_); }
    std::size_t table_cached() const final { return cached().value_or(0); }
    void table_trim(std::size_t keep) final { trim(keep); }

    bool try_close() final {
        if (passthrough_ && !passthrough_->close()) return false;
        int status = portamem_pool_close(pool_);
        // A thread or a stream that ends may be inside for a moment, which is no reason to refuse. A thread that gives
        // memory back for the pool itself is none either, and takes as long as the upstream does.
        const auto begin = std::chrono::steady_clock::now();
        auto given_back = begin;  // the latest time seen; it may have ended since the pool reported busy
        while (status == PORTAMEM_POOL_BUSY && live().first == 0) {
            const auto now = std::chrono::steady_clock::now();
            if (runtime_->is_giving_back()) given_back = now;
            if (now - given_back > kCallsTime || now - begin > kUpstreamsTime) break;
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            status = portamem_pool_close(pool_);
        }
        if (status == PORTAMEM_POOL_BUSY) return false;
        answer(status, 0);
        return true;
    }

  private:
    struct Empty {};

    PoolMemoryResource(Empty, std::shared_ptr<MemoryResource> upstream, PoolOptions options)
        : MemoryResource(traits_over(upstream, options), true),
          runtime_(detail::make_pool(std::move(upstream), std::move(options))),
          pool_(runtime_->pool()),
          passthrough_(detail::pools_pass_through()
                           ? new detail::PoolPassthrough(runtime_->upstream(), runtime_->options().limit,
                                                         runtime_->release().shared_limit())
                           : nullptr),
          is_watched_(passthrough_ != nullptr || runtime_->annotations() != nullptr) {
        portamem_pool_set_resource(pool_, detail::known_ops(), static_cast<MemoryResource*>(this), identity());
    }

    // Limit how long close() waits for a call that is inside, and for memory that is going back.
    static constexpr std::chrono::milliseconds kCallsTime{100};
    static constexpr std::chrono::milliseconds kUpstreamsTime{10000};

    std::size_t own_limit() const noexcept { return portamem_pool_get_limit(pool_); }

    // Takes the first chunk of the upstream, for so many bytes. The stream that it is taken for ends here, so that
    // every stream may have the memory.
    void reserve(std::size_t nbytes) {
        if (nbytes == 0) return;
        if (own_limit() != 0 && nbytes > own_limit()) {
            throw std::invalid_argument("the pool's initial size of " + std::to_string(nbytes) +
                                        " bytes is larger than its limit of " + std::to_string(own_limit()) +
                                        " bytes: ask for less, or raise the limit");
        }
        if (passthrough_) return;         // PORTAMEM_POOL=off keeps nothing
        const detail::DebugScope inside;  // the chunk is no block of the program's, and gets no redzones
        const auto stream = Stream::create(device());
        give_back(take(nbytes, stream, kAlignment), nbytes, stream);
        stream->close();
    }

    void* take_anyhow(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        if (__builtin_expect(has_watcher(), 0)) return take_watched(nbytes, stream, alignment);
        return take(nbytes, stream, alignment);
    }

    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        if (alignment == kAlignment) {
            void* const ptr = portamem_pool_allocate(pool_, nbytes, stream->memory_identity(), address_of(stream));
            if (ptr != nullptr) return ptr;
        } else {
            detail::refuse_alignment(alignment);
            void* const ptr =
                portamem_pool_allocate_aligned(pool_, nbytes, alignment, stream->memory_identity(), address_of(stream));
            if (ptr != nullptr) return ptr;
        }
        answer(portamem_pool_error(nullptr), nbytes);
        return nullptr;
    }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        int status = portamem_pool_deallocate(pool_, ptr, nbytes, stream->memory_identity(), address_of(stream));
        if (status == PORTAMEM_POOL_BUSY && ends_use(*stream)) {
            status = portamem_pool_deallocate(pool_, ptr, nbytes, stream->memory_identity(), address_of(stream));
        }
        if (status != PORTAMEM_POOL_OK) answer(status, nbytes);
    }

    // Returns whether a bare handle has become another stream's. The memory is then freed on that stream, under its own
    // identity.
    static bool ends_use(Stream& stream) noexcept {
        auto* const use = stream.handle_use();
        return use != nullptr && use->is_of_this_thread() && use->is_followed() && !use->is_same() && use->has_ended();
    }

    // Takes memory under a memory checker, which is told of the block, or past the pool.
    void* take_watched(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        if (passthrough_) return pass_through(nbytes, stream, alignment);
        void* const ptr = take(nbytes, stream, alignment);
        try {
            runtime_->annotations()->used(ptr, nbytes);
        } catch (...) {
            give_back(ptr, nbytes, stream);
            throw;
        }
        look_for_listener();
        return ptr;
    }

    void give_back_watched(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        if (!passthrough_) {
            runtime_->annotations()->give_back(ptr, nbytes, *stream, [&] { give_back(ptr, nbytes, stream); });
            look_for_listener();
        } else if (ptr == nullptr) {
            give_back(ptr, nbytes, stream);  // of 0 bytes, which the pool itself counts
        } else {
            passthrough_->deallocate(ptr, nbytes, stream);
        }
    }

    bool has_watcher() const noexcept { return is_watched_.load(std::memory_order_relaxed); }

    void look_for_listener() noexcept {
        if (!runtime_->annotations()->is_heard()) is_watched_.store(false, std::memory_order_relaxed);
    }

    void* pass_through(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) {
        refuse_forked();
        detail::refuse_alignment(alignment);
        if (nbytes == 0 || is_closed()) return take(nbytes, stream, alignment);
        refuse_stream_of_another_device(*stream);
        stream->refuse_capture("allocate");  // no memory is ever at hand here
        list();
        void* const ptr = passthrough_->allocate(nbytes, stream, alignment);
        if (ptr == nullptr) no_memory(PORTAMEM_POOL_LIMIT, nbytes, nullptr);
        return ptr;
    }

    static MemoryTraits traits_over(const std::shared_ptr<MemoryResource>& upstream, const PoolOptions& options) {
        refuse_forked();
        MemoryTraits traits = detail::traits_over(upstream);
        traits.stream_ordered = true;
        if (traits.kind != ResourceKind::Device) traits.may_be_of_host |= traits.host_accessible;
        traits.host_accessible = traits.host_accessible && options.host_access;
        traits.is_pooled = true;
        traits.granularity = 1;
        return traits;
    }

    static void* address_of(const std::shared_ptr<Stream>& stream) noexcept {
        return const_cast<std::shared_ptr<Stream>*>(&stream);
    }

    std::pair<std::size_t, std::size_t> live() const noexcept {
        std::uint64_t blocks = 0;
        std::uint64_t nbytes = 0;
        portamem_pool_live(pool_, &blocks, &nbytes);
        if (!passthrough_) return {blocks, nbytes};
        const auto passed = passthrough_->live();
        return {blocks + passed.first, nbytes + passed.second};
    }

    // Throws the reason that a call was refused for.
    void answer(int status, std::size_t asked) {
        if (status == PORTAMEM_POOL_OK) return;
        const char* text = "";
        (void)portamem_pool_error(&text);
        const std::string words = text;
        const std::exception_ptr thrown = std::exchange(detail::pool_failure(), nullptr);
        switch (status) {
            case PORTAMEM_POOL_OUT_OF_MEMORY:
            case PORTAMEM_POOL_LIMIT:
                no_memory(status, asked, thrown);
            case PORTAMEM_POOL_INVALID:
                throw std::invalid_argument(words);
            case PORTAMEM_POOL_HOST_MEMORY:
                throw std::bad_alloc();
            case PORTAMEM_POOL_FORKED:
                refuse_forked();
                break;
            default:
                break;
        }
        if (status == PORTAMEM_POOL_THROWN && thrown) std::rethrow_exception(thrown);
        if (!words.empty()) throw std::invalid_argument(words);
        throw std::invalid_argument(status == PORTAMEM_POOL_BUSY
                                        ? "the stream takes no work now: it is another thread's, its handle is no "
                                          "stream's any more, or the process is exiting"
                                        : "the stream has ended");
    }

    PoolStats figures() const { return passthrough_ ? passthrough_->stats() : runtime_->stats(); }

    [[noreturn]] void no_memory(int status, std::size_t asked, const std::exception_ptr& thrown) {
        const PoolStats now = figures();
        MemoryFigures figures;
        figures.asked = asked;
        figures.used = now.used;
        figures.cached = now.reserved > now.used ? now.reserved - now.used : 0;
        figures.largest_free = now.largest_free;
        const std::string text = "the pool was asked for " + std::to_string(asked) + " bytes, has " +
                                 std::to_string(now.used) + " out and " + std::to_string(*figures.cached) +
                                 " cached, of which the largest free block has " + std::to_string(now.largest_free);
        if (status == PORTAMEM_POOL_OUT_OF_MEMORY && thrown) {
            try {
                std::rethrow_exception(thrown);
            } catch (const OutOfMemory& refused) {
                MemoryFigures all = refused.figures();
                all.asked = asked;
                // The upstream counts what is cached here as held, except for the default resource.
                const std::size_t held_here = is_permanent() ? 0 : *figures.cached;
                all.used = all.used ? *all.used - std::min(*all.used, held_here) : *figures.used;
                all.cached = figures.cached;
                all.largest_free = figures.largest_free;
                throw OutOfMemory(refused, std::string(refused.what()) + "; " + text, all);
            } catch (...) {
                // The failure on the way does not matter: the call is refused because there is no memory.
            }
        }
        const auto code = rt::Error_t::OutOfMemory;
        const OutOfMemory refused(code, rt::GetErrorName(code), "allocate", "");
        std::string why = "other threads took the memory that the upstream gave";
        if (status == PORTAMEM_POOL_LIMIT) {
            const detail::PoolLimit* shared = own_limit() != 0 ? nullptr : runtime_->release().shared_limit();
            why = std::string(shared == nullptr ? "the pool's" : "PORTAMEM_POOL_LIMIT, the") + " limit of " +
                  std::to_string(limit()) + " bytes is reached";
            if (shared != nullptr) {
                why += ": the process's pools of that device have reserved " + std::to_string(shared->claimed()) +
                       ", this one " + std::to_string(now.reserved);
            }
        }
        throw OutOfMemory(refused,
                          std::string(rt::BackendName) + " allocate: OutOfMemory: " + why + "; " + text +
                              "; close buffers that are no longer needed" +
                              (status == PORTAMEM_POOL_LIMIT ? ", or raise the limit" : ""),
                          figures);
    }

    const std::shared_ptr<detail::PoolRuntime> runtime_;
    portamem_pool* const pool_;
    const detail::Owned<detail::PoolPassthrough> passthrough_;  // PORTAMEM_POOL=off
    std::atomic<bool> is_watched_;                              // becomes false where no checker listens, and stays so
};

PORTAMEM_CLOSE
