// SPDX-License-Identifier: MIT
// portamem/mr/detail/chunk_request.hpp: requests of a resource for chunks of its upstream, which it cuts into blocks.
#pragma once

#include <memory>

#include "portamem/abi/host_pages.h"
#include "portamem/mr/memory_resource.hpp"

PORTAMEM_OPEN
namespace detail {

/// Marks, while it lives, that the calling thread asks for chunks (portamem_chunks_wanted()), or with `wanted` false
/// that it does not, because a function of the program runs for a resource.
class ChunkRequest {
  public:
    explicit ChunkRequest(bool wanted = true) noexcept : before_(portamem_want_chunks(wanted ? 1 : 0)) {}
    ~ChunkRequest() { (void)portamem_want_chunks(before_); }
    ChunkRequest(const ChunkRequest&) = delete;
    ChunkRequest& operator=(const ChunkRequest&) = delete;

  private:
    const int before_;
};

/// Calls allocate of a resource that another is built on, for whole chunks. A resource that has a quicker way to large
/// pieces of memory uses it, through any adaptors in between. Throws as allocate and open_upstream do.
inline void* allocate_chunk(const std::shared_ptr<MemoryResource>& upstream, std::size_t nbytes,
                            const std::shared_ptr<Stream>& stream) {
    const ChunkRequest request;
    return open_upstream(upstream)->allocate(nbytes, stream);
}

}  // namespace detail
PORTAMEM_CLOSE
