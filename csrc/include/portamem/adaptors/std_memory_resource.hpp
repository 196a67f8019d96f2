// SPDX-License-Identifier: MIT
// portamem/adaptors/std_memory_resource.hpp: a resource as std::pmr::memory_resource.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>

#include "portamem/adaptors/host_allocation.hpp"

PORTAMEM_OPEN

/// Serves std::pmr containers: std::pmr::vector<double> values(&memory). A container keeps its std::pmr resource by a
/// bare pointer, so this object has to outlive it. It is as thread-safe as the resource.
class StdMemoryResource final : public std::pmr::memory_resource {
  public:
    /// Takes the arguments of HostAllocation, and throws as its constructor does.
    explicit StdMemoryResource(std::shared_ptr<MemoryResource> resource, std::shared_ptr<Stream> stream = nullptr)
        : from_(std::move(resource), std::move(stream)) {}

    const HostAllocation& from() const noexcept { return from_; }

  private:
    void* do_allocate(std::size_t nbytes, std::size_t alignment) override { return from_.allocate(nbytes, alignment); }
    void do_deallocate(void* ptr, std::size_t nbytes, std::size_t /*alignment*/) override {
        from_.deallocate(ptr, nbytes);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
#ifdef __cpp_rtti
        const auto* same = dynamic_cast<const StdMemoryResource*>(&other);
        return same != nullptr && from_ == same->from_;
#else
        return this == &other;  // the type of the other cannot be asked
#endif
    }

    HostAllocation from_;
};

PORTAMEM_CLOSE
