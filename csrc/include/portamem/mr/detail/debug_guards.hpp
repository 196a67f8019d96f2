// SPDX-License-Identifier: MIT
// portamem/mr/detail/debug_guards.hpp: redzones around every allocation, and poison in it, with PORTAMEM_DEBUG=1.
//
// Every way to a resource's memory leads through MemoryResource::allocate and deallocate, so both have one branch that
// leads here. Without PORTAMEM_DEBUG it costs a predicted branch on a constant. With it:
// - An allocation takes 512 bytes more, or 256 bytes and its alignment where that is above 256. The counters show these
//   bytes, and a limit counts them. The memory is filled with 0xA5 between two redzones, and noted with its call site.
// - A free copies the redzones out in stream order, and fills the memory with 0xDB.
// - Both calls wait up to two seconds for that. Where the stream of a free takes longer, damage that is found later is
//   only printed.
// - Memory that a resource takes of its upstream has no redzones; blocks cut from it do. Memory of allocate_pitched has
//   none, and none has memory that is taken or freed on a captured stream.
// - Where a resource refuses to take memory back, the program still has the memory, but it has been poisoned.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "portamem/abi/debug_api.h"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/light_vector.hpp"
#include "portamem/detail/number_map.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/event.hpp"
#include "portamem/kept.hpp"
#include "portamem/leaving.hpp"
#include "portamem/mr/memory_traits.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

namespace detail {

/// Says whether PORTAMEM_DEBUG=1 asks for redzones. It is constant in a process.
inline const bool debug_on = portamem_debug_on() != 0;

/// Marks this thread as inside of a resource.
class DebugScope {
  public:
    DebugScope() noexcept : outermost_(portamem_debug_enter() != 0) {}
    ~DebugScope() { portamem_debug_leave(); }
    DebugScope(const DebugScope&) = delete;
    DebugScope& operator=(const DebugScope&) = delete;

    bool is_outermost() const noexcept { return outermost_; }

  private:
    const bool outermost_;
};

/// Returns a stream of portamem's own for each device, on which only this work runs. It is leaked.
inline const Stream& debug_stream(int device) {
    struct Streams {
        std::mutex mutex;
        NumberMap<int, std::shared_ptr<Stream>> of;
    };
    static auto* leaked = new Streams;
    const std::lock_guard<std::mutex> lock(leaked->mutex);
    std::shared_ptr<Stream>& stream = leaked->of[device];
    if (!stream) stream = Stream::create(device);
    return *stream;
}

/// Holds pinned memory for the redzones of one allocation. Slots are used again and never freed, except those that
/// are given up. A caller that queues copies into a slot gives it up unless it sees them done.
class DebugSlot {
  public:
    DebugSlot() {
        Slots& all = slots();
        const std::lock_guard<std::mutex> lock(all.mutex);
        if (all.free.empty()) {
            all.free.reserve(all.made + kPerChunk);  // neither this nor giving back fails from here on
            void* chunk = nullptr;
            check(rt::HostMalloc(&chunk, kPerChunk * kBytes, rt::HostMallocPortable, rt::Coherence::Default),
                  "HostMalloc");
            all.made += kPerChunk;
            for (std::size_t i = 0; i < kPerChunk; ++i)
                all.free.push_back(static_cast<unsigned char*>(chunk) + i * kBytes);
        }
        bytes_ = all.free.back();
        all.free.pop_back();
    }
    ~DebugSlot() {
        if (bytes_ == nullptr) return;
        Slots& all = slots();
        const std::lock_guard<std::mutex> lock(all.mutex);
        all.free.push_back(bytes_);  // there is room
    }
    /// Gives the slot up, because work that writes to it may still be queued.
    void give_up() noexcept { bytes_ = nullptr; }
    DebugSlot(const DebugSlot&) = delete;
    DebugSlot& operator=(const DebugSlot&) = delete;

    unsigned char* before() const noexcept { return bytes_; }
    unsigned char* behind() const noexcept { return bytes_ + PORTAMEM_DEBUG_REDZONE; }

    static constexpr std::size_t kBytes = 2 * std::size_t{PORTAMEM_DEBUG_REDZONE};

  private:
    static constexpr std::size_t kPerChunk = 64;

    struct Slots {
        std::mutex mutex;
        LightVector<unsigned char*> free;
        std::size_t made = 0;
    };
    static Slots& slots() {
        static auto* leaked = new Slots;
        return *leaked;
    }

    unsigned char* bytes_ = nullptr;
};

inline bool wait_a_moment(const Event& event, std::chrono::steady_clock::duration patience = std::chrono::seconds(2)) {
    const UntrackedQueries own;
    const auto give_up = std::chrono::steady_clock::now() + patience;
    while (!event.has_happened()) {
        if (std::chrono::steady_clock::now() > give_up) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
}

/// Represents one allocation with its redzones.
class DebugBlock : public portamem_debug_block {
  public:
    explicit DebugBlock(const portamem_debug_block& block, const MemoryTraits& traits)
        : portamem_debug_block(block), traits_(traits) {}

    char* ptr() const noexcept { return static_cast<char*>(base) + front; }

    /// Fills the redzones and the memory, and waits for that. Any work may use memory that is not stream-ordered, and a
    /// program that breaks a stream's order should not find its own bytes overwritten by this. Where the stream is held
    /// up for longer, only the stream's order protects them.
    void write(const std::shared_ptr<Stream>& stream) {
        if (traits_.is_host_memory) {
            std::memset(base, PORTAMEM_DEBUG_REDZONE_BYTE, total);
            std::memset(ptr(), PORTAMEM_DEBUG_FRESH_BYTE, nbytes);
        } else {
            if (traits_.stream_ordered && stream->capture_status() != rt::StreamCaptureStatus::None) return;
            const RelaxedCapture beside(traits_.device);
            const Stream& on = traits_.stream_ordered ? *stream : debug_stream(traits_.device);
            fill(base, PORTAMEM_DEBUG_REDZONE_BYTE, front, on);
            fill(ptr(), PORTAMEM_DEBUG_FRESH_BYTE, nbytes, on);
            fill(ptr() + nbytes, PORTAMEM_DEBUG_REDZONE_BYTE, PORTAMEM_DEBUG_REDZONE, on);
            const auto done = Event::create(on.device());
            on.record_unasked(*done);
            if (wait_a_moment(*done)) {
                // The bytes between are still ordered behind the allocation where they would be without redzones.
                const bool is_ordered = traits_.stream_ordered && !traits_.host_accessible;
                const portamem_order_range written[] = {{base, is_ordered ? front : total},
                                                        {ptr() + nbytes, PORTAMEM_DEBUG_REDZONE}};
                tell_order_checker_done(*done, written, 2);
            } else if (!traits_.stream_ordered) {
                const HearingScope deaf(Hearing::Nothing);  // the memory is out already
                done->wait();
            }
        }
        is_guarded = 1;
    }

    /// Looks at the redzones and poisons the memory, behind the work on `stream`. Throws Error, named "Corrupted",
    /// where a redzone was written to.
    void check_and_poison(const std::shared_ptr<Stream>& stream) const {
        if (is_guarded == 0) return;
        const bool is_settled = Settled::covers(ptr());
        const Stream::Use use(*stream);
        if (use && !is_settled && stream->capture_status() != rt::StreamCaptureStatus::None) return;
        const RelaxedCapture beside(traits_.device);
        if (traits_.is_host_memory) {
            if (!is_settled) {
                if (const auto tail = stream->tail(); tail && !wait_a_moment(*tail)) return;  // work still uses it
            }
            refuse_damage(reinterpret_cast<unsigned char*>(ptr()) - PORTAMEM_DEBUG_REDZONE,
                          reinterpret_cast<unsigned char*>(ptr()) + nbytes);
            std::memset(ptr(), PORTAMEM_DEBUG_FREED_BYTE, nbytes);
            return;
        }
        if (!use && !is_settled) {  // closed, or another thread's: no work can be submitted to it any more
            const HearingScope deaf(Hearing::Nothing);
            if (const auto tail = stream->tail()) wait_for_use_of(*tail, {1, {base, total}});
        }
        const Stream& on = use && !is_settled ? *stream : debug_stream(traits_.device);
        auto slot = shared<DebugSlot>();
        const auto done = Event::create(on.device());
        bool is_done = false;
        try {
            copy(slot->before(), ptr() - PORTAMEM_DEBUG_REDZONE, PORTAMEM_DEBUG_REDZONE, on);
            copy(slot->behind(), ptr() + nbytes, PORTAMEM_DEBUG_REDZONE, on);
            fill(ptr(), PORTAMEM_DEBUG_FREED_BYTE, nbytes, on);
            on.record_unasked(*done);
            is_done = wait_a_moment(*done);
            if (!is_done) {
                Reaper::instance().add([block = *this, slot, done] {
                    try {
                        const UntrackedQueries own;
                        if (!done->has_happened()) return false;
                        tell_order_checker_done(*done, slot->before(), DebugSlot::kBytes);
                        char text[2048];
                        (void)portamem_debug_check(&block, slot->before(), slot->behind(), text, sizeof text);
                    } catch (...) {
                        slot->give_up();  // the runtime fails, so nothing can be learned
                    }
                    return true;
                });
            }
        } catch (...) {
            slot->give_up();
            throw;
        }
        if (is_done) {
            tell_order_checker_done(*done, base, total);
            tell_order_checker_done(*done, slot->before(), DebugSlot::kBytes);
            refuse_damage(slot->before(), slot->behind());
        }
    }

    /// These two are portamem_debug_block::read. The second copies beside all other work, and waits a moment for the
    /// copy.
    static int read_host(const portamem_debug_block* block, std::size_t offset, std::size_t count, void* to) {
        std::memcpy(to, static_cast<const char*>(block->base) + offset, count);
        return 0;
    }
    static int read_device(const portamem_debug_block* block, std::size_t offset, std::size_t count, void* to) {
        try {
            rt::PointerAttributes about;
            if (rt::PointerGetAttributes(&about, block->base) != rt::Error_t::Success) return -1;
            const Stream& on = debug_stream(about.device);
            DebugSlot slot;
            const auto done = Event::create(on.device());
            try {
                copy(slot.before(), static_cast<const char*>(block->base) + offset, count, on);
                on.record_unasked(*done);
                if (wait_a_moment(*done)) {
                    tell_order_checker_done(*done, slot.before(), DebugSlot::kBytes);
                    std::memcpy(to, slot.before(), count);
                    return 0;
                }
            } catch (...) {
                slot.give_up();
                throw;
            }
            slot.give_up();
            return -1;
        } catch (...) {
            return -1;
        }
    }

  private:
    static void fill(void* at, int value, std::size_t count, const Stream& on) {
        check(rt::MemsetAsync(at, value, count, on.handle()), "MemsetAsync");
    }
    static void copy(void* to, const void* from, std::size_t count, const Stream& on) {
        check(rt::MemcpyAsync(to, from, count, rt::MemcpyKind::Default, on.handle()), "MemcpyAsync");
    }

    void refuse_damage(const unsigned char* before, const unsigned char* behind) const {
        char text[2048];
        if (portamem_debug_check(this, before, behind, text, sizeof text) == 0) return;
        throw Error(rt::Error_t::IllegalAddress, "Corrupted", "deallocate", text);
    }

    MemoryTraits traits_;
};

}  // namespace detail

PORTAMEM_CLOSE
