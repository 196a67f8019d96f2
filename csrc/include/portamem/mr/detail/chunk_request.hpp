// SPDX-License-Identifier: MIT
// portamem/mr/detail/chunk_request.hpp: memory that a resource asks its upstream for, to cut it into blocks itself.
#pragma once

#include <memory>

#include "portamem/abi/host_pages.h"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN
namespace detail {

/// While it lives, the calling thread asks for chunks (portamem_chunks_wanted()), or, where a function of the program runs
/// for a resource, does not.
class ChunkRequest {
  public:
    explicit ChunkRequest(bool wanted = true) noexcept : before_(portamem_want_chunks(wanted ? 1 : 0)) {}
    ~ChunkRequest() { (void)portamem_want_chunks(before_); }
    ChunkRequest(const ChunkRequest&) = delete;
    ChunkRequest& operator=(const ChunkRequest&) = delete;

  private:
    const int before_;
};

/// allocate of a resource that another is built on, for whole chunks: those that have large pieces of memory in a quicker
/// way give that, whatever adaptors are in between. Throws as allocate and open_upstream do.
inline void* allocate_chunk(const std::shared_ptr<MemoryResource>& upstream, std::size_t nbytes,
                            const std::shared_ptr<Stream>& stream) {
    const ChunkRequest request;
    return open_upstream(upstream)->allocate(nbytes, stream);
}

}  // namespace detail
PORTAMEM_CLOSE
