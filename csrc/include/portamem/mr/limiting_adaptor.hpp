// SPDX-License-Identifier: MIT
// portamem/mr/limiting_adaptor.hpp: no more than so many bytes of another resource.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/bytes_text.hpp"
#include "portamem/mr/detail/knowing_adaptor.hpp"

PORTAMEM_OPEN

/// Limits the bytes that it has out, as they were asked for: they are never more than `limit`, however many threads
/// allocate.
class LimitingAdaptor : public KnowingAdaptor {
  public:
    LimitingAdaptor(std::shared_ptr<MemoryResource> upstream, std::size_t limit)
        : KnowingAdaptor(std::move(upstream)), limit_(limit) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<LimitingAdaptor> create(std::shared_ptr<MemoryResource> upstream, std::size_t limit) {
        return detail::shared<LimitingAdaptor>(std::move(upstream), limit);
    }

    std::size_t limit() const noexcept { return limit_; }
    /// Returns the bytes that are out, including those of allocations under way.
    std::size_t allocated() const noexcept { return allocated_.load(std::memory_order_relaxed); }
    /// Returns the bytes that are left of the limit.
    std::size_t available() const noexcept { return limit_ - allocated(); }

  protected:
    /// Throws OutOfMemory, whose text and figures name the limit, before the upstream is asked.
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        reserve(nbytes);
        try {
            return KnowingAdaptor::take(nbytes, stream, options);
        } catch (...) {
            allocated_.fetch_sub(nbytes, std::memory_order_relaxed);
            throw;
        }
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        KnowingAdaptor::give_back(ptr, nbytes, stream);
        allocated_.fetch_sub(nbytes, std::memory_order_relaxed);
    }

  private:
    void reserve(std::size_t nbytes) {
        auto out = allocated_.load(std::memory_order_relaxed);
        do {
            if (nbytes > limit_ - out) refuse(nbytes, out);
        } while (!allocated_.compare_exchange_weak(out, out + nbytes, std::memory_order_relaxed));
    }

    [[noreturn]] void refuse(std::size_t nbytes, std::size_t out) const {
        MemoryFigures figures;
        figures.asked = nbytes;
        figures.used = out;
        figures.free = limit_ - out;
        const std::size_t left = limit_ - out;
        const std::string text = std::string(rt::BackendName) + " LimitingAdaptor: OutOfMemory: asked for " +
                                 detail::bytes_text(nbytes, left) + ", the limit is " + detail::bytes_text(limit_) +
                                 ", of which " + detail::bytes_text(out) + " are out and " +
                                 detail::bytes_text(left, nbytes) +
                                 " are left; close buffers that are no longer needed, or raise the limit";
        const OutOfMemory refused(rt::Error_t::OutOfMemory, "OutOfMemory", "LimitingAdaptor", text);
        throw OutOfMemory(refused, text, figures);
    }

    const std::size_t limit_;
    std::atomic<std::size_t> allocated_{0};
};

PORTAMEM_CLOSE
