// SPDX-License-Identifier: MIT
// portamem/mr/detail/prepared_chunk.hpp: the next chunk of pinned memory, allocated while nobody waits for it.
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

/// HostMalloc of one chunk ahead of time, on a thread of its own. The thread is started by the first chunk that is worth
/// it and detached: nobody waits for it at exit, and what it holds then is leaked. Thread-safe.
class PreparedChunk {
  public:
    /// flags: rt::HostMallocFlags.
    PreparedChunk(int device, unsigned flags) : state_(std::make_shared<State>(device, flags)) {}
    ~PreparedChunk() {
        detail::unlocked([this] { end(); });
    }
    PreparedChunk(const PreparedChunk&) = delete;
    PreparedChunk& operator=(const PreparedChunk&) = delete;

    /// The prepared chunk, if it has exactly that size; null otherwise. Waits for one that is being made.
    void* take(std::size_t nbytes) {
        State& state = *state_;
        std::unique_lock<std::mutex> lock(state.mutex);
        state.changed.wait(lock, [&] { return state.ended || (state.making != nbytes && state.wanted != nbytes); });
        if (state.ended || state.size != nbytes) return nullptr;
        state.size = 0;
        return std::exchange(state.ready, nullptr);
    }

    /// Told of each chunk that was asked for. One like it comes next where it is the first, or like the one before, or
    /// twice as large as some of one size: so a pool grows. One twice as large comes where each is twice the one before.
    /// Of other sizes nothing is known, and what is prepared stays.
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

    /// Frees what is prepared, one that is being made too; the next chunk that is asked for is not taken for the first of many.
    /// Whether there was any, or another thread frees it: it has by then. Waits for the device, as HostFree does.
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

    /// Frees what is prepared, one that is being made too; nothing is from here on. The helper never does that after the
    /// end: HostFree waits for the device's work, and CUDA holds up all threads of the process meanwhile. While chunks are
    /// asked for it does so where another size has come up in its place: once in a while as a pool grows.
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
    static constexpr std::size_t kUnlikeAny = 1;  // as the size of the last chunk: no other is like it, or its double
    static constexpr std::size_t kLeast = std::size_t{1} << 20;   // below it, nobody notices
    static constexpr std::size_t kMost = std::size_t{256} << 20;  // 0.1 s, and what may be left over

    struct State {
        State(int on, unsigned with) : device(on), flags(with) {}

        void* allocate(std::size_t nbytes) const noexcept {
            void* ptr = nullptr;
            try {
                const RelaxedCapture beside(device);
                if (rt::HostMalloc(&ptr, nbytes, flags, rt::Coherence::Default) != rt::Error_t::Success) ptr = nullptr;
            } catch (const std::exception&) {
                return nullptr;  // whoever asks for the memory is told
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
        std::size_t last = 0;    // chunk that was asked for
        bool repeats = false;    // it was of the size of the one before
        std::size_t wanted = 0;  // sizes; 0: none
        std::size_t making = 0;
        int freeing = 0;       // threads that free what was
        std::size_t size = 0;  // of what is ready
        void* ready = nullptr;
    };

    // Where the system has no thread to give, nothing is prepared.
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
            void* unused = std::exchange(state.ready, nullptr);  // of a size that nobody has asked for
            state.size = 0;
            lock.unlock();
            state.free(unused);
            void* ptr = state.allocate(nbytes);
            lock.lock();
            state.making = 0;
            state.ready = ptr;  // where it has ended meanwhile, somebody waits there to free it
            state.size = ptr == nullptr ? 0 : nbytes;
            state.changed.notify_all();
        }
        state.changed.notify_all();
    }

    const std::shared_ptr<State> state_;
};

}  // namespace detail
PORTAMEM_CLOSE
