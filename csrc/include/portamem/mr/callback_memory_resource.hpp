// SPDX-License-Identifier: MIT
// portamem/mr/callback_memory_resource.hpp: memory from two functions of the program's.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/capture.hpp"
#include "portamem/detail/hearing.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/mr/counted_memory_resource.hpp"
#include "portamem/mr/detail/bytes_text.hpp"
#include "portamem/mr/detail/live_ranges.hpp"

PORTAMEM_OPEN

/// Allocates and frees by two functions of the program's.
/// - The resource calls them with no lock held and with its device current. What they call leaves captures of other
///   streams valid. They may use other resources, and a pool that stands on this one.
/// - An exception of theirs reaches the caller. The counts are then as before the call.
/// - A free of memory that is not out, or with a wrong size, throws std::invalid_argument, and calls no function.
class CallbackMemoryResource : public CountedMemoryResource {
  public:
    /// Returns memory of at least nbytes (never 0), aligned to kAlignment, that shares no byte with memory that is out;
    /// null where there is none. The resource gives an address that is not a multiple of the alignment back, and
    /// refuses it. It refuses an address of which bytes are out already and never gives it back, because that would
    /// free memory in use.
    using Allocate = std::function<void*(std::size_t nbytes, const std::shared_ptr<Stream>& stream)>;
    /// Takes the memory back. Stream-ordered memory goes back behind the work on `stream`; for other memory that work
    /// has run already. A function that throws has not taken the memory. The resource calls it again for that memory:
    /// when the program frees it again, and for a dropped buffer until the function returns.
    using Deallocate = std::function<void(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream)>;

    /// Are C functions that do the same, and may not throw. `stream` is a native handle; user_data is what
    /// from_functions got.
    using AllocateFn = void* (*)(std::size_t nbytes, void* stream, void* user_data);
    using DeallocateFn = void (*)(void* ptr, std::size_t nbytes, void* stream, void* user_data);

    /// traits: describes the memory; memory_of gives the traits of a kind. Throws std::invalid_argument for an empty
    /// function, and for a device that does not exist.
    CallbackMemoryResource(Allocate allocate, Deallocate deallocate, const MemoryTraits& traits)
        : CountedMemoryResource(known_to_function(traits)),
          allocate_(std::move(allocate)),
          deallocate_(std::move(deallocate)) {
        if (!allocate_ || !deallocate_)
            throw std::invalid_argument("a function to allocate or to deallocate is missing");
        (void)Device(traits.device);
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<CallbackMemoryResource> create(Allocate allocate, Deallocate deallocate,
                                                          const MemoryTraits& traits) {
        return detail::shared<CallbackMemoryResource>(std::move(allocate), std::move(deallocate), traits);
    }

    /// Makes a resource from C functions. user_data has to outlive the resource.
    static std::shared_ptr<CallbackMemoryResource> from_functions(AllocateFn allocate, DeallocateFn deallocate,
                                                                  void* user_data, const MemoryTraits& traits) {
        if (allocate == nullptr || deallocate == nullptr) {
            throw std::invalid_argument("a function to allocate or to deallocate is missing");
        }
        return create(
            [allocate, user_data](std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
                return allocate(nbytes, native(*stream), user_data);
            },
            [deallocate, user_data](void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
                deallocate(ptr, nbytes, native(*stream), user_data);
            },
            traits);
    }

    /// Returns the traits of memory of a kind on a device.
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
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        if (options.alignment > kAlignment) {
            throw std::invalid_argument("the resource aligns to " + std::to_string(kAlignment) + " bytes, not to " +
                                        std::to_string(options.alignment) + ": take a PoolMemoryResource over it");
        }
        if (nbytes == 0) return nullptr;
        if (is_stream_ordered()) stream->refuse_capture("allocate");
        const RelaxedCapture beside(device());
        auto blank = detail::LiveRanges::blank();
        void* ptr = allocate_(nbytes, stream);
        if (ptr == nullptr) {
            throw OutOfMemory(rt::Error_t::OutOfMemory, "OutOfMemory", "allocate",
                              std::string(rt::BackendName) +
                                  " allocate: OutOfMemory: the function of the program gave " + "no address for " +
                                  detail::bytes_text(nbytes));
        }
        if (nbytes - 1 > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(ptr)) refuse_wrapped(ptr, nbytes);
        const auto other = live_.add(std::move(blank), ptr, nbytes);
        if (other.nbytes != 0) refuse_shared(ptr, nbytes, other);
        if (reinterpret_cast<std::uintptr_t>(ptr) % options.alignment != 0)
            refuse_misaligned(ptr, nbytes, stream, options.alignment);
        return ptr;
    }

    std::optional<std::size_t> do_size_of(const void* ptr) const override { return live_.size_of(ptr); }
    portamem_address do_find(const void* ptr) const override {
        const auto found = live_.range_at(ptr);
        if (found.nbytes == 0) return {};
        return {PORTAMEM_ADDRESS_BLOCK, reinterpret_cast<const void*>(found.address), found.nbytes};
    }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        if (ptr == nullptr) return;
        stream->refuse_capture_if_open("deallocate");
        auto block = live_.take(ptr, nbytes);
        if (block.empty()) detail::refuse_unknown_block();
        live_.give_back(std::move(block), [&] {
            const RelaxedCapture beside(device());
            if (!is_stream_ordered() && !detail::Settled::covers(ptr)) {
                if (const auto tail = stream->tail()) tail->wait();
            }
            using detail::Hearing;
            // The program's function may wait for what it likes.
            const detail::HearingScope own(detail::hearing() == Hearing::AtOnce ? Hearing::Nothing : detail::hearing());
            deallocate_(ptr, nbytes, stream);
        });
    }

  private:
    // Sets is_known_elsewhere, because the program's functions may queue work on the memory.
    static MemoryTraits known_to_function(MemoryTraits traits) {
        traits.is_known_elsewhere = true;
        return traits;
    }
    static void* native(const Stream& stream) { return reinterpret_cast<void*>(stream.handle()); }

    static std::string text(std::uintptr_t address) {
        char text[32];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
        return text;
    }
    static std::string given(void* ptr) {
        return "the function of the program gave the address " + text(reinterpret_cast<std::uintptr_t>(ptr));
    }

    [[noreturn]] void refuse_misaligned(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream,
                                        std::size_t alignment) {
        (void)live_.take(ptr, nbytes);
        deallocate_(ptr, nbytes, stream);
        throw std::invalid_argument(given(ptr) + ", which is not a multiple of " + std::to_string(alignment) +
                                    ": allocate with that alignment");
    }

    [[noreturn]] static void refuse_wrapped(void* ptr, std::size_t nbytes) {
        throw std::invalid_argument(given(ptr) + ", from which " + std::to_string(nbytes) +
                                    " bytes go beyond the last address: give the address of that many bytes");
    }

    [[noreturn]] static void refuse_shared(void* ptr, std::size_t nbytes, const detail::LiveRanges::Range& other) {
        const bool is_same = other.address == reinterpret_cast<std::uintptr_t>(ptr);
        throw std::invalid_argument(given(ptr) + " for " + std::to_string(nbytes) + " bytes, " +
                                    (is_same ? "which is out already as " : "which overlap a block that is out: ") +
                                    std::to_string(other.nbytes) + " bytes" +
                                    (is_same ? std::string() : " at " + text(other.address)) +
                                    ": give each block memory of its own, and take an address for free only once it "
                                    "was deallocated. The refused address is not deallocated: its memory is in use");
    }

    const Allocate allocate_;
    const Deallocate deallocate_;
    detail::LiveRanges live_;
};

PORTAMEM_CLOSE
