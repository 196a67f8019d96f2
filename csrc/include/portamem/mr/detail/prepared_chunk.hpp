// SPDX-License-Identifier: MIT
// portamem/mr/detail/prepared_chunk.hpp: allocates the next chunk of pinned memory before a call needs it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "portamem/capture.hpp"
#include "portamem/detail/embedder.hpp"
#include "portamem/error.hpp"

PORTAMEM_OPEN
namespace detail {

/// Calls HostMalloc for one chunk ahead of time, on a thread of its own. The first chunk that is worth it starts the
/// thread, which is detached: nothing waits for it at exit, and what it holds then is leaked. It is thread-safe.
class PreparedChunk {
  public:
    /// flags: rt::HostMallocFlags.
    PreparedChunk(int device, unsigned flags) : state_(std::make_shared<State>(device, flags)) {}
    ~PreparedChunk() {
        detail::unlocked([this] { end(); });
    }
    PreparedChunk(const PreparedChunk&) = delete;
    PreparedChunk& operator=(const PreparedChunk&) = delete;

    /// Returns the prepared chunk if it has exactly that size; null otherwise. It waits for one that is being made.
    void* take(std::size_t nbytes) {
        State& state = *state_;
        std::unique_lock<std::mutex> lock(state.mutex);
        state.changed.wait(lock, [&] { return state.ended || (state.making != nbytes && state.wanted != nbytes); });
        if (state.ended || state.size != nbytes) return nullptr;
        state.size = 0;
        return std::exchange(state.ready, nullptr);
    }

    /// Is told of each chunk that was asked for, and prepares the next:
    /// - one of the same size, where the chunk is the first, or like the one before, or twice as large as some of one
    ///   size, because a pool grows so;
    /// - one twice as large, where each chunk is twice the one before. After other sizes nothing is known, and the
    ///   prepared chunk stays.
    void expect_after(std::size_t nbytes) {
        State& state = *state_;
        const std::lock_guard<std::mutex> lock(state.mutex);
        const std::size_t last = std::exchange(state.last, nbytes);
        const bool repeated = std::exchange(state.repeats, nbytes == last);
        const bool doubled = last != 0 && nbytes / 2 == last;
        if (state.ended || nbytes < kLeast || nbytes > kMost) return;
        if (last != 0 && nbytes != last && !doubled) return;
        state.wanted = std::min(doubled && !repeated ? 2 * nbytes : nbytes, kMost);
        if (state.wanted == state.size || state.wanted == state.making || !start()) state.wanted = 0;
        state.changed.notify_all();
    }

    /// Frees the prepared chunk, and one that is being made too. The next chunk that is asked for does not count as the
    /// first of many. Returns whether there was any, or another thread was freeing it, which has ended on return. It
    /// waits for the device, as HostFree does.
    bool drop() noexcept {
        if (!runtime_usable()) return false;
        State& state = *state_;
        std::unique_lock<std::mutex> lock(state.mutex);
        const bool was_any = state.making != 0 || state.freeing != 0 || state.ready != nullptr;
        state.wanted = 0;
        state.last = kUnlikeAny;
        state.repeats = false;
        state.changed.notify_all();
        state.changed.wait(lock, [&] { return state.making == 0; });
        state.size = 0;
        if (void* const unused = std::exchange(state.ready, nullptr)) {
            ++state.freeing;
            lock.unlock();
            state.free(unused);
            lock.lock();
            --state.freeing;
            state.changed.notify_all();
        }
        state.changed.wait(lock, [&] { return state.freeing == 0; });
        return was_any;
    }

    /// Frees the prepared chunk, and one that is being made too. Nothing is prepared from here on, and the helper
    /// thread frees nothing after it: HostFree waits for the device's work, and CUDA blocks all threads of the process
    /// meanwhile. While chunks are asked for, the helper frees one when another size replaces it, which happens once in
    /// a while as a pool grows.
    void end() noexcept {
        if (!runtime_usable()) return;  // a forked child may not even lock
        State& state = *state_;
        std::unique_lock<std::mutex> lock(state.mutex);
        state.ended = true;
        state.wanted = 0;
        state.changed.notify_all();
        state.changed.wait(lock, [&] { return state.making == 0; });
        state.size = 0;
        void* unused = std::exchange(state.ready, nullptr);
        lock.unlock();
        state.free(unused);
    }

  private:
    static constexpr std::size_t kUnlikeAny = 1;                 // as the last size: no chunk is like it, or its double
    static constexpr std::size_t kLeast = std::size_t{1} << 20;  // a smaller one takes too little time to matter
    static constexpr std::size_t kMost = std::size_t{256} << 20;  // 0.1 s, and the most that may be left over

    struct State {
        State(int on, unsigned with) : device(on), flags(with) {}

        void* allocate(std::size_t nbytes) const noexcept {
            void* ptr = nullptr;
            try {
                const RelaxedCapture beside(device);
                if (rt::HostMalloc(&ptr, nbytes, flags, rt::Coherence::Default) != rt::Error_t::Success) ptr = nullptr;
            } catch (const std::exception&) {
                return nullptr;  // the caller that asks for the memory is told
            }
            return ptr;
        }

        void free(void* ptr) const noexcept {
            if (ptr == nullptr || !runtime_usable()) return;
            try {
                const RelaxedCapture beside(device);
                (void)rt::HostFree(ptr);
            } catch (const std::exception&) {
                return;
            }
        }

        const int device;
        const unsigned flags;
        std::mutex mutex;
        std::condition_variable changed;
        bool started = false;
        bool ended = false;
        std::size_t last = 0;    // the chunk that was asked for last
        bool repeats = false;    // it had the size of the one before
        std::size_t wanted = 0;  // sizes; 0: none
        std::size_t making = 0;
        int freeing = 0;       // threads that free a prepared chunk
        std::size_t size = 0;  // of the chunk that is ready
        void* ready = nullptr;
    };

    // Starts the thread. Where the system has none to give, nothing is prepared.
    bool start() {
        if (state_->started) return true;
        try {
            std::thread([state = state_] { run(*state); }).detach();
            state_->started = true;
        } catch (const std::system_error&) {
            return false;
        }
        return true;
    }

    static void run(State& state) {
        std::unique_lock<std::mutex> lock(state.mutex);
        for (;;) {
            state.changed.wait(lock, [&] { return state.ended || state.wanted != 0; });
            state.ended = state.ended || !runtime_usable();
            if (state.ended) break;
            state.making = std::exchange(state.wanted, 0);
            const std::size_t nbytes = state.making;
            void* unused = std::exchange(state.ready, nullptr);  // its size was not asked for
            state.size = 0;
            lock.unlock();
            state.free(unused);
            void* ptr = state.allocate(nbytes);
            lock.lock();
            state.making = 0;
            state.ready = ptr;  // if it has ended meanwhile, end() waits there to free it
            state.size = ptr == nullptr ? 0 : nbytes;
            state.changed.notify_all();
        }
        state.changed.notify_all();
    }

    const std::shared_ptr<State> state_;
};

}  // namespace detail
PORTAMEM_CLOSE
