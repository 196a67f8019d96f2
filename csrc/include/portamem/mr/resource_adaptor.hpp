// SPDX-License-Identifier: MIT
// portamem/mr/resource_adaptor.hpp: resources that add something to another resource.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "portamem/mr/counted_memory_resource.hpp"

PORTAMEM_OPEN

/// Stands over another resource, and keeps it alive. Its memory and traits are that resource's, and it counts what went
/// through it. A derived class overrides take and give_back, and calls those of this class for the memory itself.
class ResourceAdaptor : public CountedMemoryResource {
  public:
    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return upstream_; }
    std::optional<std::size_t> cached() const override { return upstream_->cached(); }

  protected:
    /// queues_work: says that the adaptor queues work of its own on the memory that it gives.
    explicit ResourceAdaptor(std::shared_ptr<MemoryResource> upstream, bool queues_work = false)
        : CountedMemoryResource(traits_of(upstream, queues_work)), upstream_(std::move(upstream)) {}
    /// Serves an adaptor whose memory is not the upstream's alone. traits: of all its memory.
    ResourceAdaptor(std::shared_ptr<MemoryResource> upstream, const MemoryTraits& traits)
        : CountedMemoryResource(traits), upstream_(std::move(upstream)) {}

    MemoryResource* below(std::size_t number) const noexcept override {
        return number == 0 ? upstream_.get() : nullptr;
    }
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        return detail::open_upstream(upstream_)->allocate(nbytes, stream, options);
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        upstream_->deallocate(ptr, nbytes, stream);
    }
    std::optional<std::size_t> do_size_of(const void* ptr) const override { return upstream_->size_of(ptr); }
    // The memory may have been allocated from the upstream itself. Adaptors that know their buffers override this.
    portamem_address do_find(const void* /*ptr*/) const override { return {}; }
    void do_note_use(void* ptr, std::size_t nbytes, const Stream& stream) override {
        upstream_->note_use(ptr, nbytes, stream);
    }

  private:
    static MemoryTraits traits_of(const std::shared_ptr<MemoryResource>& upstream, bool queues_work) {
        MemoryTraits traits = detail::traits_over(upstream);
        traits.is_known_elsewhere = traits.is_known_elsewhere || queues_work;
        return traits;
    }

    const std::shared_ptr<MemoryResource> upstream_;
};

PORTAMEM_CLOSE
