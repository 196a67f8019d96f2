// SPDX-License-Identifier: MIT
// portamem/adaptors/adapted_resource.hpp: how allocators of other libraries take memory and give it back.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/detail/lost_failure.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

/// Holds a resource, and the stream that its calls name, for an allocator of another library. Copies share both.
class AdaptedResource {
  public:
    const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }
    const std::shared_ptr<Stream>& stream() const noexcept { return stream_; }

    /// Returns memory that the host may use at once, or the device in the order of stream(): the constructor says
    /// which. For the host it waits for the stream where the resource promises no more than stream order. Throws as
    /// MemoryResource::allocate does. Resources that call the runtime each time align to kAlignment at most.
    void* allocate(std::size_t nbytes, std::size_t alignment) const {
        const std::size_t least = MemoryResource::kAlignment;
        void* const ptr = resource_->allocate(nbytes, stream_, alignment < least ? least : alignment);
        // The host follows no stream. A pool hands out memory that is idle where the host reaches it; other resources
        // may promise no more than stream order.
        if (is_for_host_ && resource_->is_stream_ordered() && resource_->as_pool() == nullptr) {
            try {
                stream_->settle();
            } catch (...) {
                deallocate(ptr, nbytes);
                throw;
            }
        }
        return ptr;
    }

    /// Takes memory back behind the work on stream(). Throws nothing, because containers and algorithms give back in
    /// their destructors. Where the resource refuses, the memory stays allocated, and an embedding language is told.
    void deallocate(void* ptr, std::size_t nbytes) const noexcept {
        detail::or_tell([&] { resource_->deallocate(ptr, nbytes, stream_); });
    }

    /// Returns whether one may give back what the other has allocated.
    friend bool operator==(const AdaptedResource& a, const AdaptedResource& b) noexcept {
        return a.resource_ == b.resource_ && a.stream_ == b.stream_;
    }
    friend bool operator!=(const AdaptedResource& a, const AdaptedResource& b) noexcept { return !(a == b); }

  protected:
    /// is_for_host: the host uses the memory at once, and otherwise the device does in stream order. Throws
    /// std::invalid_argument for a null resource, and for memory that the user does not reach; `because` ends that
    /// text.
    AdaptedResource(bool is_for_host, std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream,
                    const char* because)
        : is_for_host_(is_for_host), resource_(std::move(resource)), stream_(std::move(stream)) {
        if (!resource_) throw std::invalid_argument("an allocator over a resource needs a resource, not null");
        if (!(is_for_host ? resource_->is_host_accessible() : resource_->is_device_accessible())) {
            throw std::invalid_argument(std::string(is_for_host ? "the host" : "the device") +
                                        " does not reach memory of kind " + to_string(resource_->kind()) + ", and " +
                                        because);
        }
        if (!stream_) stream_ = Stream::default_stream(resource_->device());
    }

  private:
    bool is_for_host_;
    std::shared_ptr<MemoryResource> resource_;
    std::shared_ptr<Stream> stream_;
};

PORTAMEM_CLOSE
