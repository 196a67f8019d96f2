// SPDX-License-Identifier: MIT
// core/pool/used_parts.cpp: tells an upstream which parts of a chunk are out.
#include <cstdint>
#include <vector>

#include "chunk_map.hpp"
#include "pool.hpp"
#include "portamem/abi/pool_api.h"

using portamem::pool::ChunkMap;

namespace {

bool is_out(const portamem_pool_piece& piece) noexcept {
    return piece.state == PORTAMEM_POOL_PIECE_LIVE || (piece.state == PORTAMEM_POOL_PIECE_SLAB && piece.live != 0);
}

}  // namespace

int portamem_pool_used_parts(portamem_backend backend, const void* chunk, size_t nbytes, portamem_pool_visitor visitor,
                             void* self) {
    try {
        std::vector<portamem_pool_piece> pieces;
        {
            const ChunkMap::Reading reading;
            if (!reading) return 0;
            const auto address = reinterpret_cast<std::uintptr_t>(chunk);
            const ChunkMap::Span* const span = ChunkMap::find(address);
            if (span == nullptr || span->begin != address || span->end - address != nbytes) return 0;
            if (span->owner->backend != backend) return 0;
            pieces = span->owner->pool->snapshot(chunk);
        }
        for (const portamem_pool_piece& piece : pieces) {
            if (is_out(piece)) visitor(self, &piece);
        }
        return 1;
    } catch (...) {
        return 0;
    }
}
