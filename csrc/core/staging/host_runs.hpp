// SPDX-License-Identifier: MIT
// core/staging/host_runs.hpp: host memory that lies in runs of bytes, such as every second row of an array.
#pragma once

#include <cstddef>
#include <vector>

#include "portamem/abi/staging_api.h"

namespace portamem::staging {

/// Reads and writes the runs as if they lay one behind the other. A position counts the bytes of all runs.
class HostRuns {
  public:
    /// Copies the description. Throws std::bad_alloc.
    explicit HostRuns(const portamem_host_runs& runs);

    std::size_t nbytes() const noexcept { return nbytes_; }

    /// Copies the bytes from `begin` on to `packed`, or from there. Neither goes past the last run. With
    /// `past_cache` the bytes of `packed` go past the processor's caches; those of long runs always do.
    void pack(char* packed, std::size_t begin, std::size_t nbytes, bool past_cache) const noexcept;
    void unpack(const char* packed, std::size_t begin, std::size_t nbytes) const noexcept;

  private:
    struct Dimension {
        std::size_t count;
        std::ptrdiff_t stride;
    };

    // Calls each(first, count, stride, nbytes) for `count` runs, or parts of a run, of `nbytes` bytes each.
    template <class Each>
    void walk(std::size_t begin, std::size_t nbytes, Each each) const noexcept;

    char* first_;
    std::size_t run_;
    std::size_t nbytes_;
    std::vector<Dimension> dims_;  // the outermost first; never empty
};

}  // namespace portamem::staging
