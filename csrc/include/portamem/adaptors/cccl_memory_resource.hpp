// SPDX-License-Identifier: MIT
// portamem/adaptors/cccl_memory_resource.hpp: a resource as a cuda::mr resource of CCCL, and the other way round.
//
// CCCL comes with the program: portamem/rt/cccl.hpp says which.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "portamem/detail/lost_failure.hpp"
#include "portamem/mr/callback_memory_resource.hpp"
#include "portamem/rt/cccl.hpp"

PORTAMEM_OPEN

/// Serves code that takes a cuda::mr resource, such as RMM: CcclMemoryResource<cuda::mr::device_accessible> fits
/// cuda::mr::any_resource and resource_ref of the same properties or fewer. It keeps the resource alive, copies share
/// it, and it is as thread-safe as the resource. Properties: device_accessible, host_accessible or both, each true of
/// the resource's memory.
template <class... Properties>
class CcclMemoryResource {
    template <class Property>
    static constexpr bool has = (std::is_same_v<Property, Properties> || ...);
    template <class Property>
    static constexpr bool is_known = std::is_same_v<Property, ::cuda::mr::device_accessible> ||
                                     std::is_same_v<Property, ::cuda::mr::host_accessible>;
    static_assert(sizeof...(Properties) != 0 && (is_known<Properties> && ...),
                  "the properties are cuda::mr::device_accessible, cuda::mr::host_accessible or both");

  public:
    using default_queries = ::cuda::mr::properties_list<Properties...>;

    /// Throws std::invalid_argument for a null resource, and for memory that has not all Properties.
    explicit CcclMemoryResource(std::shared_ptr<MemoryResource> resource) : resource_(std::move(resource)) {
        if (!resource_) throw std::invalid_argument("an adaptor for CCCL needs a resource, not null");
        if (has<::cuda::mr::device_accessible> && !resource_->is_device_accessible()) refuse("device");
        if (has<::cuda::mr::host_accessible> && !resource_->is_host_accessible()) refuse("host");
    }

    const std::shared_ptr<MemoryResource>& resource() const noexcept { return resource_; }

    /// Takes memory that work submitted to `stream` from now on may use; 0 bytes give a null pointer. Throws as
    /// MemoryResource::allocate does. Stream::from_handle says by what identity pools know the handle.
    void* allocate(::cuda::stream_ref stream, std::size_t nbytes,
                   std::size_t alignment = MemoryResource::kAlignment) const {
        return resource_->allocate(nbytes, rt::handle_of(stream), at_least(alignment));
    }
    /// Takes memory back behind the work on `stream`. Throws nothing, because cuda::mr asks that. Where the resource
    /// refuses, the memory stays allocated, and an embedding language is told.
    void deallocate(::cuda::stream_ref stream, void* ptr, std::size_t nbytes,
                    std::size_t /*alignment*/ = 1) const noexcept {
        detail::or_tell([&] { resource_->deallocate(ptr, nbytes, rt::handle_of(stream)); });
    }

    /// Takes memory that work on any stream, and the host where it reaches the memory, may use at once. It may wait for
    /// the device's default stream. Throws as allocate does.
    void* allocate_sync(std::size_t nbytes, std::size_t alignment = MemoryResource::kAlignment) const {
        const auto stream = Stream::default_stream(resource_->device());
        void* const ptr = resource_->allocate(nbytes, stream, at_least(alignment));
        if (!is_idle_when_given()) {
            try {
                stream->settle();
            } catch (...) {
                deallocate_sync(ptr, nbytes);
                throw;
            }
        }
        return ptr;
    }
    /// Takes back memory that no work uses any more. Throws nothing, as deallocate.
    void deallocate_sync(void* ptr, std::size_t nbytes, std::size_t /*alignment*/ = 1) const noexcept {
        detail::or_tell([&] { resource_->deallocate(ptr, nbytes, Stream::default_stream(resource_->device())); });
    }

    /// Returns whether one may give back what the other has allocated.
    friend bool operator==(const CcclMemoryResource& a, const CcclMemoryResource& b) noexcept {
        return a.resource_ == b.resource_;
    }
    friend bool operator!=(const CcclMemoryResource& a, const CcclMemoryResource& b) noexcept { return !(a == b); }

    template <class Property, std::enable_if_t<has<Property>, int> = 0>
    friend constexpr void get_property(const CcclMemoryResource&, Property) noexcept {}

  private:
    // Callers of cuda::mr ask for little: pools are fastest with their own alignment.
    static std::size_t at_least(std::size_t alignment) {
        detail::refuse_alignment(alignment);
        return alignment < MemoryResource::kAlignment ? MemoryResource::kAlignment : alignment;
    }
    // Memory in stream order is for the allocating stream alone, but for a pool's memory that the host reaches.
    bool is_idle_when_given() const noexcept {
        return !resource_->is_stream_ordered() || (resource_->as_pool() != nullptr && resource_->is_host_accessible());
    }

    [[noreturn]] void refuse(const char* who) const {
        throw std::invalid_argument(std::string("the ") + who + " does not reach memory of kind " +
                                    to_string(resource_->kind()) + ", so it has no property cuda::mr::" + who +
                                    "_accessible");
    }

    std::shared_ptr<MemoryResource> resource_;
};

namespace detail {

/// Returns what a function of a cuda::mr resource allocates; null where it says that there is no memory.
template <class Function>
void* null_where_none(Function&& function) {
    try {
        return function();
    } catch (const std::bad_alloc&) {
        return nullptr;
    } catch (const rt::CcclError& e) {
        if (!rt::is_out_of_memory(e)) throw;
        return nullptr;
    }
}

}  // namespace detail

/// Returns a resource over a cuda::mr resource, for pools and buffers of portamem: resource_from_cccl(rmm_pool,
/// ResourceKind::Async, 0). It keeps the cuda::mr resource, which has to be thread-safe; what a resource_ref refers to
/// has to outlive it.
/// - kind: Async is stream-ordered memory by allocate and deallocate with a stream. Every other kind is memory for any
///   stream at once, by allocate_sync and deallocate_sync.
/// - An exception of the cuda::mr resource reaches the caller, but std::bad_alloc and CUDA's error for want of memory
///   become OutOfMemory, so that a pool above makes room.
/// - Throws std::invalid_argument for a kind whose memory the host or the device reaches where the resource's
///   properties do not say so, and for Async where the resource takes no stream.
template <class Resource>
std::shared_ptr<CallbackMemoryResource> resource_from_cccl(Resource resource, ResourceKind kind, int device) {
    static_assert(::cuda::mr::synchronous_resource<Resource>, "this is no resource of cuda::mr");
    constexpr bool is_on_device = ::cuda::has_property<Resource, ::cuda::mr::device_accessible>;
    constexpr bool is_on_host = ::cuda::has_property<Resource, ::cuda::mr::host_accessible>;
    const MemoryTraits traits = CallbackMemoryResource::memory_of(kind, device);
    const auto refuse = [kind](const char* what) {
        throw std::invalid_argument(std::string("the cuda::mr resource is not ") + what + ", as memory of kind " +
                                    to_string(kind) + " is");
    };
    if (traits.host_accessible && !is_on_host) refuse("host_accessible");
    if (traits.device_accessible && !traits.pageable && !is_on_device) refuse("device_accessible");
    const auto from = std::make_shared<Resource>(std::move(resource));
    constexpr std::size_t alignment = MemoryResource::kAlignment;
    auto allocate = [from](std::size_t nbytes, const std::shared_ptr<Stream>&) {
        return detail::null_where_none([&] { return from->allocate_sync(nbytes, alignment); });
    };
    auto deallocate = [from](void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>&) {
        from->deallocate_sync(ptr, nbytes, alignment);
    };
    if (!traits.stream_ordered) {
        return CallbackMemoryResource::create(std::move(allocate), std::move(deallocate), traits);
    }
    if constexpr (::cuda::mr::resource<Resource>) {
        return CallbackMemoryResource::create(
            [from](std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
                const Stream::Use use = stream->in_use();
                return detail::null_where_none(
                    [&] { return from->allocate(rt::stream_ref_of(stream->handle()), nbytes, alignment); });
            },
            [from](void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) {
                const Stream::Use use(*stream);
                if (use) return from->deallocate(rt::stream_ref_of(stream->handle()), ptr, nbytes, alignment);
                // The stream is closed, or another thread's: its work runs first.
                if (const auto tail = stream->tail()) tail->wait();
                from->deallocate_sync(ptr, nbytes, alignment);
            },
            traits);
    } else {
        refuse("stream-ordered");
        return nullptr;
    }
}

PORTAMEM_CLOSE
