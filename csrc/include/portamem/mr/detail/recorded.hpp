// SPDX-License-Identifier: MIT
// portamem/mr/detail/recorded.hpp: tells a recorder of calls on resources.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include "portamem/abi/record_api.h"
#include "portamem/detail/embedder.hpp"
#include "portamem/stream.hpp"

PORTAMEM_OPEN

namespace detail {

/// Returns whether the process may have a recorder. Without one, a call costs only this test.
inline bool is_recording() noexcept {
    return __builtin_expect(__atomic_load_n(&portamem_record_on, __ATOMIC_RELAXED) != 0, 0);
}

/// Represents one call: it begins when the call is made, and ends with its outcome.
class RecordedCall {
  public:
    RecordedCall(portamem_recorder* recorder, const portamem_record_resource& resource, const Stream& stream, void* ptr,
                 std::size_t nbytes, std::size_t alignment)
        : recorder_(recorder) {
        call_.resource = resource;
        call_.stream = stream.identity();
        call_.stream_device = stream.device();
        call_.stream_role = role_of(stream);
        call_.ptr = ptr;
        call_.nbytes = nbytes;
        call_.alignment = alignment;
    }

    /// Runs a function that returns a pointer, and throws what it throws. `actual`: the bytes that it gives, if not
    /// nbytes.
    template <class Function>
    void* allocate(Function&& function, const std::size_t* actual = nullptr) {
        Site site(call_);
        portamem_record_begin(recorder_, &call_);
        try {
            call_.ptr = function();
        } catch (const std::exception& e) {
            portamem_record_refused(recorder_, &call_, e.what());
            throw;
        } catch (...) {
            portamem_record_refused(recorder_, &call_, "an exception of another kind");
            throw;
        }
        if (actual != nullptr) call_.nbytes = *actual;
        portamem_record_allocated(recorder_, &call_);
        return call_.ptr;
    }

    /// Runs a function that takes a pointer back, and throws what it throws. With `exact`, a block that the recorder
    /// does not know throws std::invalid_argument before the function runs.
    template <class Function>
    void deallocate(Function&& function, bool exact) {
        const int known = portamem_record_free_begin(recorder_, &call_);
        try {
            if (exact) refuse(known);
            function();
        } catch (const std::exception& e) {
            portamem_record_freed(recorder_, &call_, e.what());
            throw;
        } catch (...) {
            portamem_record_freed(recorder_, &call_, "an exception of another kind");
            throw;
        }
        portamem_record_freed(recorder_, &call_, nullptr);
    }

    void use() { portamem_record_used(recorder_, &call_); }

  private:
    // Holds the program's call site while an allocation is under way.
    class Site {
      public:
        explicit Site(portamem_record_call& call) {
            if (__atomic_load_n(&portamem_record_sites, __ATOMIC_RELAXED) == 0) return;
            const auto hook = embedder().call_site.load(std::memory_order_acquire);
            if (hook != nullptr && hook(text_, sizeof text_) != 0) call.site = text_;
        }

      private:
        char text_[1024];
    };

    static int role_of(const Stream& stream) {
        if (!stream.is_default()) return PORTAMEM_STREAM_OWN;
        const bool legacy = &stream == Stream::default_stream(stream.device()).get();
        return legacy ? PORTAMEM_STREAM_LEGACY : PORTAMEM_STREAM_PER_THREAD;
    }

    void refuse(int known) const {
        if (known == PORTAMEM_FREE_KNOWN) return;
        if (known == PORTAMEM_FREE_UNKNOWN) {
            throw std::invalid_argument(
                "this address is not out: it was freed before, or another resource gave it, or it lies inside of a "
                "block");
        }
        throw std::invalid_argument("the block has " + std::to_string(call_.live_nbytes) + " bytes, not " +
                                    std::to_string(call_.nbytes) + ": give the size that was allocated");
    }

    portamem_recorder* const recorder_;
    portamem_record_call call_{};
};

}  // namespace detail

PORTAMEM_CLOSE
