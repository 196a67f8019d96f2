// SPDX-License-Identifier: MIT
// portamem/mr/detail/table_resource.hpp: memory resources behind the C table of c_api.h, to and fro.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/c_api.h"
#include "portamem/mr/counted_memory_resource.hpp"
#include "portamem/mr/detail/live_blocks.hpp"
#include "portamem/mr/detail/shared_table.hpp"
#include "portamem/mr/pool_memory_resource.hpp"

PORTAMEM_OPEN
namespace detail {

// Wraps a resource of another module, and holds it while it is in use. It knows what it has out.
class ForeignMemoryResource : public CountedMemoryResource {
  public:
    ForeignMemoryResource(portamem_resource resource, int device)
        : CountedMemoryResource(traits(resource, device)), resource_(resource) {}
    ~ForeignMemoryResource() override { resource_.ops->release(resource_.self); }

    // Counts a block as this resource's that the other module's resource has out.
    void adopt(void* ptr, std::size_t nbytes, const Stream& stream) {
        (void)tracked(stream, [&] {
            live_.add(LiveBlocks::blank(), ptr, nbytes);
            return Block{ptr, nbytes};
        });
    }

  protected:
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, AllocateOptions options) override {
        if (options.alignment > kAlignment) {
            throw std::invalid_argument("a resource of another module aligns to " + std::to_string(kAlignment) +
                                        " bytes: take a PoolMemoryResource over it");
        }
        void* ptr = nullptr;
        if (nbytes == 0) return ptr;  // a null pointer is not given back to the other module
        const Stream::Use use = stream->in_use();
        stream->refuse_capture("allocate");
        auto blank = LiveBlocks::blank();
        check(rt::Error_t{resource_.ops->allocate(resource_.self, nbytes, stream->handle(), &ptr)}, "allocate");
        live_.add(std::move(blank), ptr, nbytes);
        return ptr;
    }
    void give_back(void* ptr, std::size_t nbytes, const std::shared_ptr<Stream>& stream) override {
        const Stream::Use use = stream->in_use();
        stream->refuse_capture("deallocate");
        if (ptr == nullptr) return;
        auto block = live_.take(ptr, nbytes);
        if (block.empty()) refuse_unknown_block();
        live_.give_back(std::move(block), [&] {
            check(rt::Error_t{resource_.ops->deallocate(resource_.self, ptr, nbytes, stream->handle())}, "deallocate");
        });
    }
    std::optional<std::size_t> do_size_of(const void* ptr) const override { return live_.size_of(ptr); }

  private:
    static MemoryTraits traits(portamem_resource resource, int device) {
        MemoryTraits t;
        t.kind = ResourceKind::Foreign;
        t.device = device;
        t.is_host_memory = resource.ops->device_id(resource.self) < 0;
        t.stream_ordered = true;  // the other module orders it by the stream that it is given
        t.host_accessible = resource.ops->is_host_accessible(resource.self) != 0;
        t.device_accessible = resource.ops->is_device_accessible(resource.self) != 0;
        return t;
    }

    const portamem_resource resource_;
    LiveBlocks live_;
};

// Represents one reference to a resource behind the C table, for as long as the registry needs it to take its own.
class TableReference {
  public:
    explicit TableReference(std::shared_ptr<MemoryResource> resource) : shared_(new Shared{std::move(resource)}) {}
    ~TableReference() { shared_ops()->release(shared_); }
    TableReference(const TableReference&) = delete;
    TableReference& operator=(const TableReference&) = delete;

    portamem_resource handle() const noexcept { return {shared_ops(), shared_}; }

  private:
    Shared* const shared_;
};

// Takes over the reference that the registry retained.
inline std::shared_ptr<MemoryResource> from_registry(portamem_resource resource, int device) {
    if (resource.ops != shared_ops()) {
        return std::shared_ptr<MemoryResource>(new ForeignMemoryResource(resource, device));
    }
    auto found = static_cast<Shared*>(resource.self)->resource;
    resource.ops->release(resource.self);
    return found;
}

}  // namespace detail

PORTAMEM_CLOSE
