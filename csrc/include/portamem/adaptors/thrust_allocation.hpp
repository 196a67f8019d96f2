// SPDX-License-Identifier: MIT
// portamem/adaptors/thrust_allocation.hpp: how ThrustAllocator takes memory and gives it back; needs no Thrust.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/detail/lost_failure.hpp"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN

/// Holds a resource whose memory Thrust's algorithms reach, and the stream that its calls name. Copies share both.
class ThrustAllocation {
  public:
    /// Names what Thrust's device system runs algorithms on: kernels of the device, or threads of the host.
    enum class System { Device, Host };

    /// stream: memory of a stream-ordered resource is for work on it, and goes back behind its work; null: the default
    /// stream of the resource's device. Throws std::invalid_argument for a null resource, and for memory that the
    /// system does not reach.
    ThrustAllocation(System system, std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : system_(system), resource_(std::move(resource)), stream_(std::move(stream)) {
        if (!resource_) throw std::invalid_argument("an allocator for Thrust needs a resource, not null");
        if (!is_reached()) {
            throw std::invalid_argument(std::string(is_on_host() ? "the host" : "the device") +
                                        " does not reach memory of kind " + to_string(resource_->kind()) +
                                        ", and Thrust is compiled to run its algorithms there");
        }
        if (!stream_) stream_ = Stream::default_stream(resource_->device());
    }

    const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }
    const std::shared_ptr<Stream>& stream() const noexcept { return stream_; }

    /// Throws as MemoryResource::allocate does. Resources that call the runtime each time align to kAlignment at most.
    void* allocate(std::size_t nbytes, std::size_t alignment) const {
        const std::size_t least = MemoryResource::kAlignment;
        void* const ptr = resource_->allocate(nbytes, stream_, alignment < least ? least : alignment);
        // Threads of the host follow no stream. A pool hands out memory that is idle where the host reaches it.
        if (is_on_host() && resource_->is_stream_ordered() && resource_->as_pool() == nullptr) {
            try {
                stream_->settle();
            } catch (...) {
                deallocate(ptr, nbytes);
                throw;
            }
        }
        return ptr;
    }

    /// Throws nothing, because containers and algorithms give back in their destructors. Where the resource refuses,
    /// the memory stays allocated, and an embedding language is told.
    void deallocate(void* ptr, std::size_t nbytes) const noexcept {
        detail::or_tell([&] { resource_->deallocate(ptr, nbytes, stream_); });
    }

    /// Returns whether one may give back what the other has allocated.
    friend bool operator==(const ThrustAllocation& a, const ThrustAllocation& b) noexcept {
        return a.resource_ == b.resource_ && a.stream_ == b.stream_;
    }
    friend bool operator!=(const ThrustAllocation& a, const ThrustAllocation& b) noexcept { return !(a == b); }

  private:
    bool is_on_host() const noexcept { return system_ == System::Host; }
    bool is_reached() const noexcept {
        return is_on_host() ? resource_->is_host_accessible() : resource_->is_device_accessible();
    }

    System system_;
    std::shared_ptr<MemoryResource> resource_;
    std::shared_ptr<Stream> stream_;
};

PORTAMEM_CLOSE
