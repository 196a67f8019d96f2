// SPDX-License-Identifier: MIT
// portamem/mr/prefetch_adaptor.hpp: memory that is on its way to where it will be used from the start.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "portamem/mr/knowing_adaptor.hpp"

PORTAMEM_OPEN

/// Prefetches what it allocates, on the stream that it is allocated on: the first kernel finds its pages there instead
/// of faulting for each. For managed memory, and for system memory that the device reaches, where the runtime moves it.
class PrefetchAdaptor : public KnowingAdaptor {
  public:
    /// location: none is the device of each allocation's stream. Throws std::invalid_argument for memory of another kind,
    /// which does not move.
    explicit PrefetchAdaptor(std::shared_ptr<MemoryResource> upstream, std::optional<rt::Location> location = {})
        : KnowingAdaptor(std::move(upstream)), location_(location) {
        if (location_ && location_->type == rt::LocationType::Device) (void)Device(location_->id);
        if (traits().kind == ResourceKind::Managed) return;
        if (traits().kind == ResourceKind::System && traits().device_accessible) return;
        throw std::invalid_argument(std::string("only managed memory can be prefetched, and system memory where the "
                                                "device has pageable memory access; the upstream gives ") +
                                    to_string(traits().kind) + " memory" +
                                    (traits().kind == ResourceKind::System
                                         ? ", which device " + std::to_string(traits().device) + " does not reach"
                                         : "") +
                                    ": take a ManagedMemoryResource");
    }

    /// None: the device of each allocation's stream.
    const std::optional<rt::Location>& location() const noexcept { return location_; }

  protected:
    /// Throws std::invalid_argument under capture: the prefetch would become part of the graph.
    void* take(std::size_t nbytes, const std::shared_ptr<Stream>& stream, std::size_t alignment) override {
        if (nbytes != 0) stream->refuse_capture("prefetching memory as it is allocated");
        void* ptr = KnowingAdaptor::take(nbytes, stream, alignment);
        if (ptr == nullptr) return ptr;
        try {
            const RelaxedCapture beside(stream->device());
            const rt::Location to = location_.value_or(rt::Location{rt::LocationType::Device, stream->device()});
            const rt::Error_t answer = rt::MemPrefetchAsync(ptr, nbytes, to, stream->handle());
            if (!is_unmoved(answer)) check(answer, "MemPrefetchAsync");
        } catch (...) {
            KnowingAdaptor::give_back(ptr, nbytes, stream);
            throw;
        }
        return ptr;
    }

  private:
    // Not every runtime that reaches system memory moves it: there it stays where it is, and is reached from afar.
    bool is_unmoved(rt::Error_t answer) const noexcept {
        if (traits().kind != ResourceKind::System) return false;
        return answer == rt::Error_t::InvalidValue || answer == rt::Error_t::NotSupported;
    }

    const std::optional<rt::Location> location_;
};

PORTAMEM_CLOSE
