// SPDX-License-Identifier: MIT
// portamem/mr/prefetch_adaptor.hpp: memory that is prefetched to where it will be used.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "portamem/detail/shared.hpp"
#include "portamem/managed.hpp"
#include "portamem/mr/detail/knowing_adaptor.hpp"

PORTAMEM_OPEN

/// Prefetches what it allocates, on the stream of the allocation, so that the first kernel finds its pages in place and
/// takes no page faults. The upstream gives managed memory, or system memory that the device reaches. Where the runtime
/// refuses the prefetch, the allocation throws its Error, and nothing is allocated.
class PrefetchAdaptor : public KnowingAdaptor {
  public:
    /// location: none means the device of each allocation's stream. Throws std::invalid_argument for memory of another
    /// kind, which does not move.
    explicit PrefetchAdaptor(std::shared_ptr<MemoryResource> upstream, std::optional<rt::Location> location = {})
        : KnowingAdaptor(std::move(upstream), true), location_(location) {
        if (location_ && location_->type == rt::LocationType::Device) (void)Device(location_->id);
        if (detail::is_movable(traits())) return;
        throw std::invalid_argument(detail::not_movable(traits().kind, traits().device, "the upstream gives "));
    }

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<PrefetchAdaptor> create(std::shared_ptr<MemoryResource> upstream,
                                                   std::optional<rt::Location> location = {}) {
        return detail::shared<PrefetchAdaptor>(std::move(upstream), std::move(location));
    }

    /// Returns the location; none means the device of each allocation's stream.
    const std::optional<rt::Location>& location() const noexcept { return location_; }

  protected:
    /// Throws std::invalid_argument under capture, because the prefetch would become part of the graph.
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        const Stream::Use use = stream->in_use();  // another thread may close it meanwhile
        if (nbytes != 0) stream->refuse_capture("prefetching memory as it is allocated");
        void* ptr = KnowingAdaptor::take(nbytes, stream, options);
        if (ptr == nullptr) return ptr;
        try {
            const RelaxedCapture beside(stream->device());
            const rt::Location to = location_.value_or(rt::Location{rt::LocationType::Device, stream->device()});
            check(rt::MemPrefetchAsync(ptr, nbytes, to, stream->handle()), "MemPrefetchAsync");
        } catch (...) {
            KnowingAdaptor::give_back(ptr, nbytes, stream);
            throw;
        }
        return ptr;
    }

  private:
    const std::optional<rt::Location> location_;
};

PORTAMEM_CLOSE
