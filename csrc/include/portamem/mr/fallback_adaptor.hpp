// SPDX-License-Identifier: MIT
// portamem/mr/fallback_adaptor.hpp: memory of a second resource where the first one has none.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/detail/owned.hpp"
#include "portamem/detail/shared.hpp"
#include "portamem/managed.hpp"
#include "portamem/mr/detail/knowing_adaptor.hpp"

PORTAMEM_OPEN

/// Takes memory from an alternate resource where its upstream has none: what does not fit on the device becomes managed
/// or pinned memory, for example. Each buffer goes back to the resource that gave it.
///
/// Its memory keeps what the upstream's traits promise. So the alternate is of the same device, is stream-ordered if
/// and only if the upstream is, and the host and the device reach its memory where they reach the upstream's. Prefetch
/// and advice take the memory only where the upstream's moves too. The upstream refuses only after it has waited for
/// memory that was dropped (MemoryResource::allocate); the adaptor asks the alternate then.
class FallbackAdaptor : public KnowingAdaptor {
  public:
    /// Throws std::invalid_argument where a resource is null or closed, or the alternate cannot stand for the upstream.
    FallbackAdaptor(std::shared_ptr<MemoryResource> upstream, std::shared_ptr<MemoryResource> alternate)
        : KnowingAdaptor(upstream, traits_of(upstream, alternate)), alternate_(std::move(alternate)) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<FallbackAdaptor> create(std::shared_ptr<MemoryResource> upstream,
                                                   std::shared_ptr<MemoryResource> alternate) {
        return detail::shared<FallbackAdaptor>(std::move(upstream), std::move(alternate));
    }

    const std::shared_ptr<MemoryResource>& alternate() const noexcept { return alternate_; }
    /// Return how many buffers of the alternate's memory this adaptor has out, and their bytes.
    std::size_t alternate_live_buffers() const noexcept { return buffers_.load(std::memory_order_relaxed); }
    std::size_t alternate_live_bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

    /// Returns the sum of what both resources have cached, or nothing where one of them cannot say. Memory of a pool
    /// below both counts twice.
    std::optional<std::size_t> cached() const override {
        const auto first = upstream()->cached();
        const auto second = alternate_->cached();
        return first && second ? std::optional(*first + *second) : std::nullopt;
    }

  protected:
    MemoryResource* below(std::size_t number) const noexcept override {
        return number == 1 ? alternate_.get() : KnowingAdaptor::below(number);
    }

    /// Throws OutOfMemory, with the upstream's figures and both refusals in its text, where neither has memory, or
    /// where the alternate refuses such a request: for an alignment that it cannot give, for example.
    /// - Under capture, the upstream gives what it has at hand, and otherwise the alternate does. Where neither has
    ///   memory at hand, the caller gets the upstream's refusal.
    /// - For any other failure of the upstream the alternate is not asked, and the caller gets that failure.
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        detail::Owned<OutOfMemory> first;
        try {
            return KnowingAdaptor::take(nbytes, stream, options);
        } catch (const OutOfMemory& refused) {
            first = detail::Owned(new OutOfMemory(refused));
        } catch (const std::invalid_argument&) {
            if (!is_captured(*stream)) throw;
            return take_of_alternate_or_throw(std::current_exception(), nbytes, stream, options);
        }
        try {
            return take_of_alternate(nbytes, stream, options);
        } catch (const OutOfMemory& refused) {
            throw_both(*first, refused);
        } catch (const std::invalid_argument& refused) {
            throw_both(*first, refused);
        }
    }

    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        if (buffers_.load(std::memory_order_acquire) == 0) return KnowingAdaptor::give_back(ptr, nbytes, stream);
        auto block = of_alternate_.take(ptr, nbytes);
        if (block.empty()) return KnowingAdaptor::give_back(ptr, nbytes, stream);
        of_alternate_.give_back(std::move(block), [&] { alternate_->deallocate(ptr, nbytes, stream); });
        bytes_.fetch_sub(nbytes, std::memory_order_relaxed);
        buffers_.fetch_sub(1, std::memory_order_relaxed);
    }

    std::optional<std::size_t> do_size_of(const void* ptr) const override {
        const auto nbytes = of_alternate_.size_of(ptr);
        return nbytes ? nbytes : KnowingAdaptor::do_size_of(ptr);
    }

    void do_note_use(void* ptr, std::size_t nbytes, const Stream& stream) override {
        if (of_alternate_.size_of(ptr)) return alternate_->note_use(ptr, nbytes, stream);
        KnowingAdaptor::do_note_use(ptr, nbytes, stream);
    }

  private:
    static MemoryTraits traits_of(const std::shared_ptr<MemoryResource>& upstream,
                                  const std::shared_ptr<MemoryResource>& alternate) {
        MemoryTraits traits = detail::traits_over(upstream);
        const MemoryTraits other = detail::traits_over(alternate, "alternate");
        refuse_unless_it_stands_for(traits, other);
        traits.pageable = traits.pageable || other.pageable;
        traits.may_be_of_host = traits.may_be_of_host || other.may_be_of_host || other.host_accessible;
        traits.free_may_wait = traits.free_may_wait || other.free_may_wait;
        traits.is_known_elsewhere = traits.is_known_elsewhere || other.is_known_elsewhere;
        traits.may_sleep = traits.may_sleep || other.may_sleep;  // while one sleeps, memory of both is refused
        traits.granularity = std::max(traits.granularity, other.granularity);
        traits.levels = std::max(traits.levels, other.levels);
        return traits;
    }

    static void refuse_unless_it_stands_for(const MemoryTraits& traits, const MemoryTraits& other) {
        if (other.device != traits.device) {
            throw std::invalid_argument("the alternate is of device " + std::to_string(other.device) +
                                        ", the upstream of device " + std::to_string(traits.device));
        }
        if (other.stream_ordered != traits.stream_ordered) {
            throw std::invalid_argument(
                std::string(traits.stream_ordered ? "the upstream" : "the alternate") +
                " is stream-ordered and the other resource is not: put a PoolMemoryResource over that one");
        }
        const bool is_behind_host = traits.host_accessible && !other.host_accessible;
        if (is_behind_host || (traits.device_accessible && !other.device_accessible)) {
            throw std::invalid_argument(std::string("the ") + (is_behind_host ? "host" : "device") +
                                        " reaches the upstream's memory, of kind " + to_string(traits.kind) +
                                        ", and not the alternate's, of kind " + to_string(other.kind));
        }
        if (detail::is_movable(traits) && !detail::is_movable(other)) {
            throw std::invalid_argument(std::string("prefetch and advise take the upstream's memory, of kind ") +
                                        to_string(traits.kind) + ", and not the alternate's, of kind " +
                                        to_string(other.kind));
        }
    }

    [[noreturn]] static void throw_both(const OutOfMemory& first, const std::exception& second) {
        throw OutOfMemory(first, std::string(first.what()) + "; the alternate refused too: " + second.what(),
                          first.figures());
    }

    static bool is_captured(const Stream& stream) noexcept {
        try {
            return stream.capture_status() != rt::StreamCaptureStatus::None;
        } catch (const std::exception&) {
            return false;  // a closed stream
        }
    }

    void* take_of_alternate_or_throw(const std::exception_ptr& otherwise, std::size_t nbytes,
                                     const std::shared_ptr<Stream>& stream, AllocateOptions options) {
        try {
            return take_of_alternate(nbytes, stream, options);
        } catch (const std::invalid_argument&) {
        } catch (const OutOfMemory&) {
        }
        std::rethrow_exception(otherwise);
    }

    void* take_of_alternate(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) {
        auto blank = detail::LiveBlocks::blank();
        void* const ptr = detail::open_upstream(alternate_, "alternate")->allocate(nbytes, stream, options);
        if (ptr == nullptr) return ptr;
        of_alternate_.add(std::move(blank), ptr, nbytes);
        bytes_.fetch_add(nbytes, std::memory_order_relaxed);
        buffers_.fetch_add(1, std::memory_order_release);
        return ptr;
    }

    const std::shared_ptr<MemoryResource> alternate_;
    detail::LiveBlocks of_alternate_;
    std::atomic<std::size_t> buffers_{0};
    std::atomic<std::size_t> bytes_{0};
};

PORTAMEM_CLOSE
