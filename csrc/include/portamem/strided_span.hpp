// SPDX-License-Identifier: MIT
// portamem/strided_span.hpp: host memory with strides, as one end of a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "portamem/abi/staging_api.h"
#include "portamem/backend.hpp"

PORTAMEM_OPEN

/// Names host memory of the program whose elements do not lie one behind the other, such as every second row of an
/// array. A copy moves the elements in C order: the last dimension runs fastest.
class StridedSpan {
  public:
    static constexpr std::size_t kMostDims = PORTAMEM_HOST_RUNS_MOST_DIMS;

    /// `shape` and `strides` have `dims` entries each; `itemsize` and strides are in bytes, and strides may be
    /// negative. `first` is the address of the element with all indices 0. The object keeps `owner`; with a null owner
    /// the caller keeps the memory while a copy needs it. Throws std::invalid_argument for more than kMostDims
    /// dimensions, and std::length_error for more bytes than memory can have.
    StridedSpan(void* first, std::size_t itemsize, std::size_t dims, const std::size_t* shape,
                const std::ptrdiff_t* strides, std::shared_ptr<void> owner = nullptr)
        : first_(first), run_(itemsize), nbytes_(itemsize), owner_(std::move(owner)) {
        if (dims > kMostDims) {
            throw std::invalid_argument("memory of " + std::to_string(dims) + " dimensions: at most " +
                                        std::to_string(kMostDims) + " can be copied");
        }
        for (std::size_t dim = 0; dim < dims; ++dim) {
            if (__builtin_mul_overflow(nbytes_, shape[dim], &nbytes_))
                throw std::length_error("the shape has more bytes than memory can have");
        }
        if (nbytes_ == 0) return;
        for (std::size_t dim = 0; dim < dims; ++dim) append(shape[dim], strides[dim]);
        join_innermost();
    }

    /// Returns the bytes of all elements, without the gaps between them.
    std::size_t nbytes() const noexcept { return nbytes_; }
    const std::shared_ptr<void>& owner() const noexcept { return owner_; }

    /// Returns whether two elements may share bytes; such memory cannot be the target of a copy. In rare cases it is
    /// true although no elements share bytes, where they lie between each other.
    bool may_overlap_itself() const noexcept {
        std::size_t extent =
            run_;  // from the first to the last byte of the dimensions so far, nearest neighbours first
        for (std::size_t done = 0, beyond = 0; done < dims_; ++done) {
            std::size_t next = dims_;
            for (std::size_t dim = 0; dim < dims_; ++dim) {
                if (distance(dim) > beyond && (next == dims_ || distance(dim) < distance(next))) next = dim;
            }
            if (next == dims_ || distance(next) < extent) return true;  // two strides are the same, or one is 0
            beyond = distance(next);
            extent += (counts_[next] - 1) * beyond;
        }
        return false;
    }

    /// Describes the memory to the functions of staging_api.h, while this lives.
    portamem_host_runs runs() const noexcept { return {first_, nbytes_ == 0 ? 0 : run_, dims_, counts_, strides_}; }

  private:
    std::size_t distance(std::size_t dim) const noexcept {
        const auto stride = static_cast<std::size_t>(strides_[dim]);
        return strides_[dim] < 0 ? 0 - stride : stride;
    }

    // Adds an inner dimension. Two that one stride describes become one.
    void append(std::size_t count, std::ptrdiff_t stride) noexcept {
        if (count == 1) return;
        std::ptrdiff_t together = 0;
        const bool fits = !__builtin_mul_overflow(static_cast<std::ptrdiff_t>(count), stride, &together);
        if (dims_ != 0 && fits && strides_[dims_ - 1] == together) {
            counts_[dims_ - 1] *= count;
            strides_[dims_ - 1] = stride;
            return;
        }
        counts_[dims_] = count;
        strides_[dims_++] = stride;
    }

    // Elements that lie one behind the other become one run.
    void join_innermost() noexcept {
        if (dims_ == 0 || strides_[dims_ - 1] != static_cast<std::ptrdiff_t>(run_)) return;
        run_ *= counts_[--dims_];
    }

    void* first_;
    std::size_t run_;
    std::size_t nbytes_;
    std::size_t dims_ = 0;
    std::size_t counts_[kMostDims];  // of runs, the outermost dimension first
    std::ptrdiff_t strides_[kMostDims];
    std::shared_ptr<void> owner_;
};

PORTAMEM_CLOSE
