// SPDX-License-Identifier: MIT
// portamem/mr/detail/runtime_memory_resource.hpp: resources over one runtime call each.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "portamem/abi/pool_api.h"
#include "portamem/capture.hpp"
#include "portamem/detail/owned.hpp"
#include "portamem/mr/counted_memory_resource.hpp"
#include "portamem/mr/detail/bytes_text.hpp"
#include "portamem/mr/detail/default_cache.hpp"
#include "portamem/mr/detail/live_blocks.hpp"

PORTAMEM_OPEN

/// Runs the vendor's calls beside captures and on the resource's device, and explains why there is no memory. It knows
/// what is out, and refuses another size, or memory of another resource, before it asks the vendor. The vendor refuses
/// an address that no resource has out.
class RuntimeMemoryResource : public CountedMemoryResource {
    // Calls for stream-ordered memory get the stream's handle, and another thread may close the stream meanwhile.
    template <class Function>
    auto in_use(const Stream& stream, Function&& function) {
        if (!is_stream_ordered()) return function();
        const Stream::Use use = stream.in_use();
        return function();
    }

  protected:
    explicit RuntimeMemoryResource(const MemoryTraits& traits) : CountedMemoryResource(traits) {}

    // Are called where other captures are safe and the device is current. One case has no current device: a
    // stream-ordered resource on a stream that is no default one, where the call takes the device from the stream.
    // nbytes may be 0. They throw by check().
    virtual void* call_allocate(std::size_t nbytes, Stream& stream) = 0;
    virtual void call_deallocate(void* ptr, std::size_t nbytes, Stream& stream) = 0;
    /// Does call_allocate for a request of a chunk (AllocateOptions); call_deallocate takes either back.
    virtual void* call_allocate_chunk(std::size_t nbytes, Stream& stream) { return call_allocate(nbytes, stream); }

    /// Runs an allocating function with what it needs, for a caller that asked for `asked` bytes.
    template <class Function>
    Block allocated(std::size_t asked, Stream& stream, Function&& function) {
        return tracked(stream, [&] { return called(asked, stream, function); });
    }

    /// Runs a function that takes `asked` bytes of the runtime. Where there is no memory, the pools of the process and
    /// the default resource give theirs back, and the function runs again. The last refusal says where the memory is.
    template <class Function>
    auto explained(std::size_t asked, Function&& function) {
        bool has_trimmed = false;
        for (unsigned looks = 1;; ++looks) {
            try {
                return function();
            } catch (const OutOfMemory& e) {
                if (looks <= kMostLooks && pools_make_room(asked)) continue;
                if (has_trimmed || !make_room(asked)) explain(e, asked);
                has_trimmed = true;
            }
        }
    }

    /// Notes that a block that is out has another size now. The caller takes the blank note before it changes the size.
    void note_resized(detail::LiveBlocks::Block blank, void* ptr, std::size_t from, std::size_t to) noexcept {
        live_.add(std::move(blank), ptr, to);
        count_resized(from, to);
    }

    static void wait_for(Stream& stream) {
        if (const auto tail = stream.tail()) tail->wait();
    }

    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) final {
        if (options.alignment > kAlignment) {
            throw std::invalid_argument("the resource aligns to " + std::to_string(kAlignment) + " bytes, not to " +
                                        std::to_string(options.alignment) + ": take a PoolMemoryResource over it");
        }
        const auto call = [&] {
            return options.is_chunk ? call_allocate_chunk(nbytes, *stream) : call_allocate(nbytes, *stream);
        };
        return called(nbytes, *stream, [&] { return Block{call(), nbytes}; }).ptr;
    }

    std::optional<std::size_t> do_size_of(const void* ptr) const final { return live_.size_of(ptr); }
    portamem_known_over over() const noexcept final { return PORTAMEM_OVER_NO_POOL; }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) final {
        stream->refuse_capture("deallocate");
        const Beside beside(traits(), *stream);
        if (ptr == nullptr) return;
        auto block = live_.take(ptr, nbytes);
        if (block.empty()) refuse_unknown(ptr);
        live_.give_back(std::move(block), [&] {
            if (!is_stream_ordered() && !detail::Settled::covers(ptr)) wait_for(*stream);
            in_use(*stream, [&] { call_deallocate(ptr, nbytes, *stream); });
        });
    }

    /// Throws std::invalid_argument for an address that is not out, unless the vendor's call will refuse it.
    virtual void refuse_unknown(void* ptr) const {
        rt::PointerAttributes known;
        if (rt::PointerGetAttributes(&known, ptr) != rt::Error_t::Success || known.base != ptr) return;
        const bool is_pinned = known.type == rt::MemoryType::Host;
        if (is_pinned != (kind() == ResourceKind::Pinned)) return;
        throw std::invalid_argument("the memory resource has not given out this memory: it is another's");
    }

    void counted(std::int64_t delta) noexcept final { portamem_account(rt::BackendId, device_id(), delta); }

  private:
    // Holds what the calls need. The guard is left out where it is not needed, to save time on the most frequent path.
    class Beside {
      public:
        Beside(const MemoryTraits& traits, const Stream& stream)
            : guard_(traits.device, !traits.stream_ordered || stream.is_default()) {}

      private:
        const DeviceGuard guard_;  // put back last
        const RelaxedCaptureMode mode_;
    };

    template <class Function>
    Block called(std::size_t asked, Stream& stream, Function&& function) {
        // Memory allocated inside a capture would belong to its graph, which portamem does not own.
        if (is_stream_ordered()) stream.refuse_capture("allocate");
        return explained(asked, [&] {
            return in_use(stream, [&] {
                const Beside beside(traits(), stream);
                auto blank = detail::LiveBlocks::blank();
                const Block block = function();
                if (block.ptr != nullptr) live_.add(std::move(blank), block.ptr, block.nbytes);
                return block;
            });
        });
    }

    // How often one call asks the pools of the process, while other threads take what those give back.
    static constexpr unsigned kMostLooks = 16;

    /// Has the pools of the process give back what they keep idle, and waits for nothing. It does nothing for a call of
    /// a pool of the same memory, which asks the other pools itself.
    bool pools_make_room(std::size_t asked) const noexcept {
        try {
            const int device = traits().device_id();
            const std::uint64_t idle = portamem_pools_lendable(rt::BackendId, device);
            return idle != 0 && !would_be_vain(asked, idle) && portamem_pools_lend(rt::BackendId, device, asked) != 0;
        } catch (...) {
            return false;  // the device cannot even be asked
        }
    }

    /// Returns whether the device, or the host, has too little memory for the request even with so many bytes more.
    bool would_be_vain(std::size_t asked, std::uint64_t more) const {
        if (traits().is_host_memory) return asked > host_bytes();
        const RelaxedCapture beside(traits().device);
        std::size_t free = 0;
        std::size_t total = 0;
        const bool is_told = rt::MemGetInfo(&free, &total) == rt::Error_t::Success;
        return is_told && (asked > total || free + more < asked);
    }

    /// Takes back what the device's default resource has cached, for a resource that finds no memory. It waits for the
    /// work that used it, with no lock held. It does nothing beneath the default resource, which does that itself.
    bool make_room(std::size_t asked) const noexcept {
        if (traits().is_host_memory || is_permanent()) return false;
        try {
            const detail::DefaultCache cache(traits().device);
            const std::size_t cached = cache.nbytes();
            if (cached == 0 || would_be_vain(asked, cached)) return false;
            return cache.trim();
        } catch (...) {
            return false;  // the device cannot even be asked
        }
    }

    /// Returns the bytes of the machine's memory, or the largest number where it does not tell.
    static std::uint64_t host_bytes() noexcept {
        const long pages = ::sysconf(_SC_PHYS_PAGES);
        const long page = ::sysconf(_SC_PAGESIZE);
        if (pages <= 0 || page <= 0) return std::numeric_limits<std::uint64_t>::max();
        return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
    }

    // Throws the refusal again, with where the memory is and what would help.
    [[noreturn]] void explain(const OutOfMemory& refused, std::size_t asked) const {
        MemoryFigures figures;
        figures.asked = asked;
        detail::Owned<RelaxedCapture> beside;
        try {
            beside = detail::Owned(new RelaxedCapture(traits().device));
            figures.cached = cached();
        } catch (const Error&) {
            throw refused;  // the device cannot even be asked
        }
        std::string text = std::string(refused.what()) + "; asked for ";
        const detail::DefaultCache own_default(traits().device);
        const std::size_t kept = is_permanent() ? 0 : own_default.nbytes();
        std::size_t free = 0;
        std::size_t total = 0;
        if (!traits().is_host_memory && rt::MemGetInfo(&free, &total) == rt::Error_t::Success) {
            const std::size_t held = portamem_held(rt::BackendId, traits().device);
            // For the default resource only memory that is out counts as held.
            const auto in_pools = static_cast<std::size_t>(portamem_pools_idle(rt::BackendId, traits().device));
            const std::size_t by_default = detail::DefaultCache(traits().device).nbytes();
            const std::size_t idle = std::min(held, in_pools > by_default ? in_pools - by_default : 0);
            const std::size_t others = total - free > held ? total - free - held : 0;
            figures.free = free;
            figures.used = held - idle;
            const std::size_t caches = figures.cached.value_or(0) + kept;
            figures.used_by_others = others > caches ? others - caches : 0;
            text += detail::bytes_text(asked, free) + ", device " + std::to_string(traits().device) + " has " +
                    detail::bytes_text(free, asked) + " of " + detail::bytes_text(total) +
                    " free, portamem's buffers hold " + detail::bytes_text(held - idle) +
                    ", used by others and caches " + detail::bytes_text(others);
            if (idle > 0) {
                text += ", pools of this process keep " + detail::bytes_text(idle) +
                        " of which no buffer is out: trim() gives that back";
            }
        } else {
            text += detail::bytes_text(asked);
        }
        if (figures.cached) text += ", cached in this resource " + detail::bytes_text(*figures.cached);
        if (!traits().is_host_memory && kept > 0) {
            const std::string device = std::to_string(traits().device);
            text += ", kept by portamem's own default resource " + detail::bytes_text(kept) + ", which ";
            if (!own_default.is_default(traits().device)) text += "set_default_resource(" + device + ", None) and ";
            text += "default_resource(" + device + ").trim() gives back as far as none of it is out";
        }
        text += "; close buffers that are no longer needed";
        text += figures.cached.value_or(0) > 0 ? ", trim() the pool, or ask for less" : ", or ask for less at a time";
        throw OutOfMemory(refused, text, figures);
    }

    detail::LiveBlocks live_;
};

PORTAMEM_CLOSE
