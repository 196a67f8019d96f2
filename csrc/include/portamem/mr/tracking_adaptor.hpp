// SPDX-License-Identifier: MIT
// portamem/mr/tracking_adaptor.hpp: what is allocated now, and where it was allocated.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "portamem/detail/shared.hpp"
#include "portamem/mr/detail/recording_adaptor.hpp"

PORTAMEM_OPEN

/// Describes an allocation that is out.
struct OutstandingAllocation {
    void* ptr = nullptr;
    std::size_t nbytes = 0;
    std::uint64_t stream = 0;  ///< its identity
    int stream_device = 0;
    std::chrono::system_clock::time_point time;
    std::uint64_t thread = 0;  ///< the system's number of the allocating thread
    std::string tag;
    std::string site;  ///< "file:line" in Python, else symbol and offset
};

/// Knows each allocation that is out. It prints to stderr what is out when it is destroyed, or when the process exits.
/// A close that is refused says where the memory was allocated.
class TrackingAdaptor : public RecordingAdaptor {
  public:
    explicit TrackingAdaptor(std::shared_ptr<MemoryResource> upstream)
        : RecordingAdaptor(std::move(upstream), PORTAMEM_RECORD_SITES | PORTAMEM_RECORD_REPORT) {}

    /// Makes the resource as the constructor does, and shares it.
    static std::shared_ptr<TrackingAdaptor> create(std::shared_ptr<MemoryResource> upstream) {
        return detail::shared<TrackingAdaptor>(std::move(upstream));
    }

    /// Returns the allocations that are out, the oldest first.
    std::vector<OutstandingAllocation> outstanding() const {
        refuse_forked();
        std::vector<OutstandingAllocation> found;
        if (portamem_recorder_visit_live(recorder(), &TrackingAdaptor::add, &found) != 0) throw std::bad_alloc();
        return found;
    }

  protected:
    std::string live_text() const override {
        static constexpr std::size_t kMost = 5;
        const auto live = outstanding();
        std::string text = "; out are";
        for (std::size_t i = 0; i < live.size() && i < kMost; ++i) {
            text += (i == 0 ? " " : ", ") + std::to_string(live[i].nbytes) + " bytes of " + live[i].site;
        }
        if (live.size() > kMost) text += " and " + std::to_string(live.size() - kMost) + " more";
        return live.empty() ? std::string() : text;
    }

  private:
    static void add(void* self, const portamem_record_live* live) {
        const std::chrono::nanoseconds since_1970(live->time);
        static_cast<std::vector<OutstandingAllocation>*>(self)->push_back(
            {live->ptr, live->nbytes, live->stream, live->stream_device,
             std::chrono::system_clock::time_point(
                 std::chrono::duration_cast<std::chrono::system_clock::duration>(since_1970)),
             live->thread, live->tag, live->site});
    }
};

PORTAMEM_CLOSE
