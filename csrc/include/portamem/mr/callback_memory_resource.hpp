// SPDX-License-Identifier: MIT
// portamem/mr/callback_memory_resource.hpp: memory of the program's own two functions.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/capture.hpp"
#include "portamem/mr/bytes_text.hpp"
#include "portamem/mr/chunk_request.hpp"
#include "portamem/mr/counted_memory_resource.hpp"
#include "portamem/mr/live_blocks.hpp"

PORTAMEM_OPEN

/// Allocates and frees by two functions of the program's. They are called with no lock held, the resource's device
/// current and beside captures of other streams; they may use other resources, and a pool that stands on this one. What
/// they throw reaches the caller, and nothing is counted or lost. Memory that is not out, and a wrong size, are
/// std::invalid_argument, and no function is called.
class CallbackMemoryResource : public CountedMemoryResource {
  public:
    /// Memory of at least nbytes (never 0), aligned to kAlignment. Null means that there is none.
    using Allocate = std::function<void*(std::size_t nbytes, const std::shared_ptr<Stream>& stream)>;
    /// Takes it back. Of stream-ordered memory behind the work on `stream`; of other memory that work has run.
    using Deallocate = std::function<void(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream)>;

    /// The same as C functions, which may not throw: `stream` is a native handle, user_data is handed through.
    using AllocateFn = void* (*)(std::size_t nbytes, void* stream, void* user_data);
    using DeallocateFn = void (*)(void* ptr, std::size_t nbytes, void* stream, void* user_data);

    /// traits: what the memory is; memory_of gives those of a kind.
    CallbackMemoryResource(Allocate allocate, Deallocate deallocate, const MemoryTraits& traits)
        : CountedMemoryResource(traits), allocate_(std::move(allocate)), deallocate_(std::move(deallocate)) {
        if (!allocate_ || !deallocate_)
            throw std::invalid_argument("a function to allocate or to deallocate is missing");
        (void)Device(traits.device);
    }

    /// user_data: outlives the resource.
    static std::shared_ptr<CallbackMemoryResource> from_functions(AllocateFn allocate, DeallocateFn deallocate,
                                                                  void* user_data, const MemoryTraits& traits) {
        if (allocate == nullptr || deallocate == nullptr) {
            throw std::invalid_argument("a function to allocate or to deallocate is missing");
        }
        return std::make_shared<CallbackMemoryResource>(
            [allocate, user_data](std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
                return allocate(nbytes, native(*stream), user_data);
            },
            [deallocate, user_data](void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
                deallocate(ptr, nbytes, native(*stream), user_data);
            },
            traits);
    }

    /// What memory of a kind is on a device.
    static MemoryTraits memory_of(ResourceKind kind, int device) {
        MemoryTraits t;
        t.kind = kind;
        t.device = Device(device).ordinal();
        t.is_host_memory = kind == ResourceKind::Pinned || kind == ResourceKind::System;
        t.host_accessible = t.is_host_memory || kind == ResourceKind::Managed;
        t.stream_ordered = kind == ResourceKind::Async;
        t.pageable = kind == ResourceKind::System;
        if (t.pageable) t.device_accessible = detail::answer(rt::DeviceAttr::PageableMemoryAccess, device);
        return t;
    }

  protected:
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) override {
        if (alignment > kAlignment) {
            throw std::invalid_argument("the resource aligns to " + std::to_string(kAlignment) + " bytes, not to " +
                                        std::to_string(alignment) + ": take a PoolMemoryResource over it");
        }
        if (nbytes == 0) return nullptr;
        if (is_stream_ordered()) stream->refuse_capture("allocate");
        const RelaxedCapture beside(device());
        const detail::ChunkRequest none(false);
        void* ptr = allocate_(nbytes, stream);
        if (ptr == nullptr) {
            throw OutOfMemory(rt::Error_t::OutOfMemory, "OutOfMemory", "allocate",
                              std::string(rt::BackendName) +
                                  " allocate: OutOfMemory: the function of the program gave " + "no address for " +
                                  detail::bytes_text(nbytes));
        }
        if (reinterpret_cast<std::uintptr_t>(ptr) % alignment != 0) refuse_address(ptr, nbytes, stream, alignment);
        try {
            live_.add(ptr, nbytes);
        } catch (...) {
            deallocate_(ptr, nbytes, stream);
            throw;
        }
        return ptr;
    }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        if (ptr == nullptr) return;
        stream->refuse_capture_if_open("deallocate");
        auto block = live_.take(ptr, nbytes);
        if (block.empty()) detail::refuse_unknown_block();
        live_.give_back(std::move(block), [&] {
            const RelaxedCapture beside(device());
            if (!is_stream_ordered()) {
                if (const auto tail = stream->tail()) tail->synchronize();
            }
            deallocate_(ptr, nbytes, stream);
        });
    }

  private:
    static void* native(const Stream& stream) { return reinterpret_cast<void*>(stream.handle()); }

    [[noreturn]] void refuse_address(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                     std::size_t alignment) {
        char address[32];
        std::snprintf(address, sizeof address, "0x%llx",
                      static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(ptr)));
        deallocate_(ptr, nbytes, stream);
        throw std::invalid_argument(std::string("the function of the program gave the address ") + address +
                                    ", which is no multiple of " + std::to_string(alignment) +
                                    ": allocate with that alignment");
    }

    const Allocate allocate_;
    const Deallocate deallocate_;
    detail::LiveBlocks live_;
};

PORTAMEM_CLOSE
