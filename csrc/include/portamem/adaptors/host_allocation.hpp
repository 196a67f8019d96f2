// SPDX-License-Identifier: MIT
// portamem/adaptors/host_allocation.hpp: what the adaptors for the standard library have in common.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/detail/lost_failure.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

/// Holds a resource whose memory the host reaches, and the stream that its calls name. Copies share both. The standard
/// library constructs objects in the memory at once, so device memory is refused.
class HostAllocation {
  public:
    /// stream: stream-ordered memory goes back behind its work; null: the default stream of the resource's device.
    /// Throws std::invalid_argument for a null resource, and for memory that the host does not reach.
    explicit HostAllocation(std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : resource_(std::move(resource)), stream_(std::move(stream)) {
        if (!resource_) throw std::invalid_argument("an adaptor for the standard library needs a resource, not null");
        if (!resource_->is_host_accessible()) {
            throw std::invalid_argument(std::string("the host does not reach memory of kind ") +
                                        to_string(resource_->kind()) +
                                        ", and the standard library constructs objects in it: take pinned, managed or "
                                        "system memory");
        }
        if (!stream_) stream_ = Stream::default_stream(resource_->device());
    }

    const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }
    const std::shared_ptr<Stream>& stream() const noexcept { return stream_; }

    /// Throws as MemoryResource::allocate does. Resources that call the runtime each time align to kAlignment at most.
    void* allocate(std::size_t nbytes, std::size_t alignment) const {
        const std::size_t least = MemoryResource::kAlignment;
        void* const ptr = resource_->allocate(nbytes, stream_, alignment < least ? least : alignment);
        // A pool hands out memory that is idle where the host reaches it. Others may promise no more than stream order.
        if (resource_->is_stream_ordered() && resource_->as_pool() == nullptr) {
            try {
                stream_->settle();
            } catch (...) {
                deallocate(ptr, nbytes);
                throw;
            }
        }
        return ptr;
    }

    /// Throws nothing, because containers give back in their destructors. Where the resource refuses, the memory stays
    /// allocated, and an embedding language is told.
    void deallocate(void* ptr, std::size_t nbytes) const noexcept {
        detail::or_tell([&] { resource_->deallocate(ptr, nbytes, stream_); });
    }

    /// Returns whether one may give back what the other has allocated.
    friend bool operator==(const HostAllocation& a, const HostAllocation& b) noexcept {
        return a.resource_ == b.resource_ && a.stream_ == b.stream_;
    }
    friend bool operator!=(const HostAllocation& a, const HostAllocation& b) noexcept { return !(a == b); }

  private:
    std::shared_ptr<MemoryResource> resource_;
    std::shared_ptr<Stream> stream_;
};

PORTAMEM_CLOSE
