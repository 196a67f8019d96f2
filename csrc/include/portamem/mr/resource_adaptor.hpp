// SPDX-License-Identifier: MIT
// portamem/mr/resource_adaptor.hpp: resources that do something beside what another resource does.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "portamem/mr/counted_memory_resource.hpp"

PORTAMEM_OPEN

/// A resource over another, which it keeps alive: its memory is that one's, and so is everything that it says of it.
/// Counts what went through it. An adaptor overrides take and give_back, calling these for the memory itself.
class ResourceAdaptor : public CountedMemoryResource {
  public:
    const std::shared_ptr<MemoryResource>& upstream() const noexcept { return upstream_; }
    std::optional<std::size_t> cached() const override { return upstream_->cached(); }

  protected:
    explicit ResourceAdaptor(std::shared_ptr<MemoryResource> upstream)
        : CountedMemoryResource(detail::traits_over(upstream)), upstream_(std::move(upstream)) {}

    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) override {
        return detail::open_upstream(upstream_)->allocate(nbytes, stream, alignment);
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        upstream_->deallocate(ptr, nbytes, stream);
    }
    void do_note_use(void* ptr, std::size_t nbytes, const Stream& stream) override {
        upstream_->note_use(ptr, nbytes, stream);
    }

  private:
    const std::shared_ptr<MemoryResource> upstream_;
};

PORTAMEM_CLOSE
