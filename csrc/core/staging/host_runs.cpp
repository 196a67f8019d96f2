// SPDX-License-Identifier: MIT
// core/staging/host_runs.cpp: host memory that lies in runs of bytes.
#include "host_runs.hpp"

#include <algorithm>
#include <cstring>

#include "passing_copy.hpp"

namespace portamem::staging {

namespace {

// Copies runs of a size that the compiler knows, which takes a few instructions each.
template <std::size_t kRun>
void copy_small(char* to, std::ptrdiff_t to_stride, const char* from, std::ptrdiff_t from_stride, std::size_t count) {
    for (; count != 0; --count, to += to_stride, from += from_stride) std::memcpy(to, from, kRun);
}

void copy_runs(char* to, std::ptrdiff_t to_stride, const char* from, std::ptrdiff_t from_stride, std::size_t count,
               std::size_t run, bool past_cache) {
    switch (run) {
        case 1:
            return copy_small<1>(to, to_stride, from, from_stride, count);
        case 2:
            return copy_small<2>(to, to_stride, from, from_stride, count);
        case 4:
            return copy_small<4>(to, to_stride, from, from_stride, count);
        case 8:
            return copy_small<8>(to, to_stride, from, from_stride, count);
        case 16:
            return copy_small<16>(to, to_stride, from, from_stride, count);
        default:
            break;
    }
    for (; count != 0; --count, to += to_stride, from += from_stride) {
        if (past_cache) {
            copy_past_the_cache(to, from, run);
        } else {
            std::memcpy(to, from, run);
        }
    }
}

}  // namespace

HostRuns::HostRuns(const portamem_host_runs& runs)
    : first_(static_cast<char*>(runs.first)), run_(runs.run), nbytes_(runs.run) {
    for (std::size_t dim = 0; dim < runs.dims; ++dim) {
        dims_.push_back({runs.counts[dim], runs.strides[dim]});
        nbytes_ *= runs.counts[dim];
    }
    if (dims_.empty()) dims_.push_back({1, 0});
}

template <class Each>
void HostRuns::walk(std::size_t begin, std::size_t nbytes, Each each) const noexcept {
    std::size_t at[PORTAMEM_HOST_RUNS_MOST_DIMS];  // the present run's index in each dimension
    char* run = first_;
    std::size_t number = begin / run_;
    for (std::size_t dim = dims_.size(); dim-- > 0; number /= dims_[dim].count) {
        at[dim] = number % dims_[dim].count;
        run += static_cast<std::ptrdiff_t>(at[dim]) * dims_[dim].stride;
    }
    const std::size_t last = dims_.size() - 1;
    for (std::size_t within = begin % run_; nbytes != 0; within = 0) {
        std::size_t count = 1;
        const std::size_t part = std::min(run_ - within, nbytes);
        if (part == run_) count = std::min(dims_[last].count - at[last], nbytes / run_);
        each(run + within, count, dims_[last].stride, part);
        nbytes -= count * part;
        // Goes on to the run behind those, and at the end of a dimension to the next index of the one around it.
        at[last] += count;
        run += static_cast<std::ptrdiff_t>(count) * dims_[last].stride;
        for (std::size_t dim = last; dim > 0 && at[dim] == dims_[dim].count; --dim) {
            run += dims_[dim - 1].stride - static_cast<std::ptrdiff_t>(dims_[dim].count) * dims_[dim].stride;
            at[dim] = 0;
            ++at[dim - 1];
        }
    }
}

void HostRuns::pack(char* packed, std::size_t begin, std::size_t nbytes, bool past_cache) const noexcept {
    walk(begin, nbytes, [&](const char* first, std::size_t count, std::ptrdiff_t stride, std::size_t run) {
        copy_runs(packed, static_cast<std::ptrdiff_t>(run), first, stride, count, run, past_cache);
        packed += count * run;
    });
}

void HostRuns::unpack(const char* packed, std::size_t begin, std::size_t nbytes) const noexcept {
    walk(begin, nbytes, [&](char* first, std::size_t count, std::ptrdiff_t stride, std::size_t run) {
        copy_runs(first, stride, packed, static_cast<std::ptrdiff_t>(run), count, run, true);
        packed += count * run;
    });
}

}  // namespace portamem::staging
