// SPDX-License-Identifier: MIT
// portamem/mr/device_memory_resource.hpp: plain device memory.
#pragma once

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/free_unused.hpp"
#include "portamem/mr/detail/runtime_memory_resource.hpp"

PORTAMEM_OPEN

/// Gives plain device memory, by Malloc and Free. Each call costs the driver tens of microseconds, so use it for memory
/// that lives long. (The class of this name in cuda.core is a pool; that is AsyncMemoryResource here.)
class DeviceMemoryResource : public RuntimeMemoryResource {
  public:
    /// coherence: Default, or AMD's FineGrained and Uncached. Throws std::invalid_argument for the coherences of pinned
    /// memory.
    explicit DeviceMemoryResource(int device, rt::Coherence coherence = rt::Coherence::Default)
        : RuntimeMemoryResource(traits_of(device, coherence)), coherence_(coherence) {
        if (coherence == rt::Coherence::Coherent || coherence == rt::Coherence::NonCoherent) {
            throw std::invalid_argument("coherence of device memory is default, fine_grained or uncached");
        }
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<DeviceMemoryResource> create(int device, rt::Coherence coherence = rt::Coherence::Default) {
        return detail::shared<DeviceMemoryResource>(device, coherence);
    }

    rt::Coherence coherence() const noexcept { return coherence_; }

    /// Describes aligned rows of memory: they start `pitch` bytes apart, and take `nbytes` in all.
    struct Rows {
        void* ptr = nullptr;
        std::size_t pitch = 0;
        std::size_t nbytes = 0;
    };

    /// Allocates `height` rows of `width` bytes. deallocate takes them back, with the nbytes that this returns. Throws
    /// as allocate does, and std::invalid_argument for a resource of another coherence than Default.
    Rows allocate_pitched(std::size_t width, std::size_t height, const std::shared_ptr<Stream>& stream) {
        if (coherence_ != rt::Coherence::Default) {
            throw std::invalid_argument("pitched memory has default coherence: take a resource of that coherence");
        }
        if (!detail::is_recording()) return take_pitched(width, height, *stream);
        Rows rows;
        (void)recorded(portamem_record_process(), *stream, nullptr, width * height, kAlignment)
            .allocate(
                [&] {
                    rows = take_pitched(width, height, *stream);
                    return rows.ptr;
                },
                &rows.nbytes);
        return rows;
    }

  protected:
    void* call_allocate(std::size_t nbytes, Stream&) override {
        void* ptr = nullptr;
        if (coherence_ == rt::Coherence::Default) {
            check(rt::Malloc(&ptr, nbytes), "Malloc");
        } else {
            check(rt::ExtMallocWithFlags(&ptr, nbytes, coherence_), "ExtMallocWithFlags");
        }
        return ptr;
    }
    void call_deallocate(void* ptr, std::size_t, Stream&) override {
        if (rt::FreeMayWait && !traits().free_may_wait && detail::Settled::covers_all_uses(ptr)) {
            return check(detail::free_unused(ptr, traits().device), "FreeAsync");
        }
        check(rt::Free(ptr), "Free");
    }

  private:
    Rows take_pitched(std::size_t width, std::size_t height, Stream& stream) {
        std::size_t pitch = 0;
        const Block block = with_room([&] {
            return allocated(width * height, stream, [&] {
                void* ptr = nullptr;
                check(rt::MallocPitch(&ptr, &pitch, width, height), "MallocPitch");
                return Block{ptr, pitch * height};
            });
        });
        return {block.ptr, pitch, block.nbytes};
    }

    static MemoryTraits traits_of(int device, rt::Coherence coherence) {
        MemoryTraits t;
        t.kind = ResourceKind::Device;
        t.device = Device(device).ordinal();
        t.host_accessible = detail::answer(rt::DeviceAttr::DirectDeviceMemAccessFromHost, device);
        const bool is_async = rt::FreeAsyncTakesPlain && coherence == rt::Coherence::Default &&
                              detail::answer(rt::DeviceAttr::MemoryPoolsSupported, device);
        t.free_may_wait = rt::FreeMayWait && !is_async;
        return t;
    }

    const rt::Coherence coherence_;
};

PORTAMEM_CLOSE
