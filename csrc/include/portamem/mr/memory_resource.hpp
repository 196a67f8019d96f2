// SPDX-License-Identifier: MIT
// portamem/mr/memory_resource.hpp: what every memory resource is and promises.
#pragma once

#include <atomic>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "portamem/capture.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

/// The kinds of memory that resources give; the last two are memory that others own.
enum class ResourceKind { Device, Pinned, Managed, System, Async, Registered, Foreign };

inline const char* to_string(ResourceKind kind) noexcept {
    switch (kind) {
        case ResourceKind::Device:
            return "device";
        case ResourceKind::Pinned:
            return "pinned";
        case ResourceKind::Managed:
            return "managed";
        case ResourceKind::System:
            return "system";
        case ResourceKind::Async:
            return "async";
        case ResourceKind::Registered:
            return "registered";
        case ResourceKind::Foreign:
            return "foreign";
    }
    return "unknown";
}

/// What a resource's memory is. Accessibility is asked of the device, never derived from the kind.
struct MemoryTraits {
    ResourceKind kind = ResourceKind::Device;
    int device = 0;               ///< whose current resource it can be, and where its default stream is
    bool is_host_memory = false;  ///< its device_id is -1
    bool stream_ordered = false;
    bool host_accessible = false;
    bool device_accessible = true;
    bool pageable = false;  ///< of malloc and the like: the runtime knows nothing of its pages

    int device_id() const noexcept { return is_host_memory ? rt::CpuDeviceId : device; }
};

/// Where memory comes from and goes back to. Shared: every Buffer keeps its resource alive. Thread-safe.
class MemoryResource : public std::enable_shared_from_this<MemoryResource> {
  public:
    virtual ~MemoryResource() = default;
    MemoryResource(const MemoryResource&) = delete;
    MemoryResource& operator=(const MemoryResource&) = delete;

    const MemoryTraits& traits() const noexcept { return traits_; }
    ResourceKind kind() const noexcept { return traits_.kind; }
    int device() const noexcept { return traits_.device; }
    int device_id() const noexcept { return traits_.device_id(); }
    bool is_stream_ordered() const noexcept { return traits_.stream_ordered; }
    bool is_host_accessible() const noexcept { return traits_.host_accessible; }
    bool is_device_accessible() const noexcept { return traits_.device_accessible; }

    std::size_t live_buffers() const noexcept {
        const auto live = live_.load(std::memory_order_acquire);
        return live < 0 ? 0 : static_cast<std::size_t>(live);
    }
    std::size_t live_bytes() const noexcept { return live_bytes_.load(std::memory_order_relaxed); }
    bool is_closed() const noexcept { return live_.load(std::memory_order_acquire) < 0; }

    /// Memory that work submitted to `stream` from now on may use; on a resource that is not stream-ordered, any work.
    /// 0 bytes give a null pointer, which deallocate takes back like any other.
    /// Throws OutOfMemory, Error; std::invalid_argument when closed, or for a stream under capture.
    void* allocate(std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        return tracked(nbytes, *stream, [&] { return Block{do_allocate(nbytes, *stream), nbytes}; }).ptr;
    }

    /// Takes memory of allocate back. Stream-ordered: behind the work on `stream`, at once for the host. Otherwise
    /// blocks until that work has run: no vendor promises that its Free waits. Null with nothing of 0 bytes out is fine.
    /// Throws Error, and std::invalid_argument for what cannot be the resource's: the memory is still allocated.
    void deallocate(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
        refuse_forked();
        if (ptr == nullptr) nbytes = 0;
        std::atomic<std::int64_t>& out = ptr == nullptr ? empty_ : out_;
        if (!claim(out)) {
            if (ptr == nullptr) return;
            throw std::invalid_argument("the memory resource has nothing out: this memory is not its own");
        }
        try {
            if (nbytes > live_bytes()) refuse_size(nbytes);
            stream->refuse_capture("deallocate");
            const Beside beside(traits_, *stream);
            if (ptr != nullptr) {
                if (!traits_.stream_ordered) wait_for(*stream);
                do_deallocate(ptr, nbytes, *stream);
            }
            count(-static_cast<std::int64_t>(nbytes));
        } catch (...) {
            out.fetch_add(1, std::memory_order_relaxed);
            throw;
        }
        live_.fetch_sub(1, std::memory_order_release);  // last: close() may go on from here
    }

    /// Refuses (ExportError) while memory is out. Closing twice is fine.
    void close() {
        refuse_forked();
        if (permanent_.load(std::memory_order_relaxed)) {
            throw ExportError("the process's default resource stays open: others allocate from it");
        }
        if (live_.load(std::memory_order_acquire) > 0) Reaper::instance().run_once();  // what waits to go back may go
        std::int64_t none = 0;
        if (live_.compare_exchange_strong(none, kClosed, std::memory_order_acq_rel)) {
            if (runtime_usable()) do_close();
            return;
        }
        if (none < 0) return;
        throw ExportError("the resource still has " + std::to_string(live_buffers()) + " live buffer(s) of " +
                          std::to_string(live_bytes()) + " bytes in all: close them first");
    }

    /// For the default resource of a process, which nobody may close.
    void make_permanent() noexcept { permanent_.store(true, std::memory_order_relaxed); }
    bool is_permanent() const noexcept { return permanent_.load(std::memory_order_relaxed); }

  protected:
    struct Block {
        void* ptr = nullptr;
        std::size_t nbytes = 0;
    };

    // Runs an allocating function as allocate promises, and counts what it gave.
    template <class Function>
    Block tracked(std::size_t asked, Stream& stream, Function&& function) {
        refuse_forked();
        begin_live();
        try {
            refuse_stream(stream);
            const Beside beside(traits_, stream);
            const Block block = function();
            count(static_cast<std::int64_t>(block.nbytes));
            (block.ptr == nullptr ? empty_ : out_).fetch_add(1, std::memory_order_relaxed);
            return block;
        } catch (const OutOfMemory& e) {
            live_.fetch_sub(1, std::memory_order_release);
            explain(e, asked);
        } catch (...) {
            live_.fetch_sub(1, std::memory_order_release);
            throw;
        }
    }

    explicit MemoryResource(const MemoryTraits& traits) : traits_(traits) {}

    // Captures elsewhere are safe, and the device is current, but for a stream-ordered resource's on a stream that is no
    // default one: such calls take the device from the stream. nbytes may be 0. Throw through check().
    virtual void* do_allocate(std::size_t nbytes, Stream& stream) = 0;
    virtual void do_deallocate(void* ptr, std::size_t nbytes, Stream& stream) = 0;
    virtual void do_close() {}

    // Bytes that the resource holds without anybody using them, where it can say.
    virtual std::optional<std::size_t> cached() const { return std::nullopt; }

  private:
    // What do_allocate and do_deallocate run in. The guard is left out where it is not needed: it is time on the path
    // that is taken most.
    class Beside {
      public:
        Beside(const MemoryTraits& traits, const Stream& stream) {
            if (!traits.stream_ordered || stream.is_default()) guard_.emplace(traits.device);
        }

      private:
        std::optional<DeviceGuard> guard_;  // put back last
        const RelaxedCaptureMode mode_;
    };

    static constexpr std::int64_t kClosed = -(std::int64_t{1} << 62);

    void begin_live() {
        if (live_.fetch_add(1, std::memory_order_acquire) >= 0) return;
        live_.fetch_sub(1, std::memory_order_relaxed);
        throw std::invalid_argument("the memory resource is closed");
    }

    // Takes one off the buffers that are out; false where none is.
    static bool claim(std::atomic<std::int64_t>& out) noexcept {
        auto count = out.load(std::memory_order_relaxed);
        do {
            if (count <= 0) return false;
        } while (!out.compare_exchange_weak(count, count - 1, std::memory_order_relaxed));
        return true;
    }

    [[noreturn]] void refuse_size(std::size_t nbytes) const {
        throw std::invalid_argument("the memory resource has " + std::to_string(live_bytes()) + " bytes out, not " +
                                    std::to_string(nbytes) + ": give the size that was allocated");
    }

    void refuse_stream(const Stream& stream) const {
        if (!traits_.stream_ordered) return;
        if (stream.device() != traits_.device) {
            throw std::invalid_argument("the stream belongs to device " + std::to_string(stream.device()) +
                                        ", the resource to device " + std::to_string(traits_.device));
        }
        // Memory allocated inside a capture would belong to its graph, which portamem does not own.
        stream.refuse_capture("allocate");
    }

    static void wait_for(Stream& stream) {
        if (const auto tail = stream.tail()) tail->synchronize();
    }

    void count(std::int64_t delta) noexcept {
        live_bytes_.fetch_add(static_cast<std::size_t>(delta), std::memory_order_relaxed);
        // Memory of another module's resource is counted there.
        if (traits_.kind != ResourceKind::Foreign) portamem_account(rt::BackendId, device_id(), delta);
    }

    static std::string text_of(std::size_t nbytes) {
        static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
        std::size_t unit = 0;
        auto value = static_cast<double>(nbytes);
        for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
        char text[48];
        std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.4g %s", value, kUnits[unit]);
        return text;
    }

    // The refusal again, with where the memory is and what would help.
    [[noreturn]] void explain(const OutOfMemory& refused, std::size_t asked) const {
        MemoryFigures figures;
        figures.asked = asked;
        std::optional<RelaxedCapture> beside;
        try {
            beside.emplace(traits_.device);
            figures.cached = cached();
        } catch (const Error&) {
            throw refused;  // the device cannot even be asked
        }
        std::string text = std::string(refused.what()) + "; asked for " + text_of(asked);
        std::size_t free = 0;
        std::size_t total = 0;
        if (!traits_.is_host_memory && rt::MemGetInfo(&free, &total) == rt::Error_t::Success) {
            const std::size_t held = portamem_held(rt::BackendId, traits_.device);
            const std::size_t others = total - free > held ? total - free - held : 0;
            figures.free = free;
            figures.used = held;
            figures.used_by_others = others > figures.cached.value_or(0) ? others - figures.cached.value_or(0) : 0;
            text += ", device " + std::to_string(traits_.device) + " has " + text_of(free) + " of " + text_of(total) +
                    " free, portamem's buffers hold " + text_of(held) + ", used by others and caches " +
                    text_of(others);
        }
        if (figures.cached) text += ", cached in this resource " + text_of(*figures.cached);
        text += "; close buffers that are no longer needed";
        text += figures.cached.value_or(0) > 0 ? ", trim() the pool, or ask for less" : ", or ask for less at a time";
        throw OutOfMemory(refused, text, figures);
    }

    const MemoryTraits traits_;
    std::atomic<bool> permanent_{false};
    std::atomic<std::int64_t> live_{0};   // buffers out, coming or going; negative once closed
    std::atomic<std::int64_t> out_{0};    // of those, the ones that deallocate may take
    std::atomic<std::int64_t> empty_{0};  // the same of 0 bytes, which all have one address
    std::atomic<std::size_t> live_bytes_{0};
};

PORTAMEM_CLOSE
