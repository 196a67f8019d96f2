// SPDX-License-Identifier: MIT
// core/pool/upstream.cpp: asks the upstream for chunks, and gives chunks back.
#include "upstream.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "refused.hpp"

namespace portamem::pool {

Upstream::Claim::Claim(Upstream& upstream, std::size_t least, std::size_t& nbytes)
    : upstream_(upstream), transfer_(upstream.transfers_) {
    {
        const std::lock_guard<std::mutex> lock(upstream.heap_.mutex());
        if (const std::size_t limit = upstream.limit(); limit != 0) {
            const std::size_t taken = upstream.heap_.reserved() + upstream.transfers_.nbytes;
            const std::size_t left = limit > taken ? limit - taken : 0;
            nbytes = left < least ? 0 : std::min(nbytes, std::max(least, left & ~(kGrain - 1)));
        }
        if (nbytes != 0) transfer_.begin(nbytes);
    }
    const Callbacks& callbacks = upstream.callbacks_;
    if (nbytes == 0 || callbacks.ops.claim == nullptr) return;
    const int status = callbacks.ops.claim(callbacks.self, least, &nbytes);
    if (status == PORTAMEM_POOL_OK) {
        claimed_ = nbytes;
        return;
    }
    nbytes = 0;
    give_up();
    if (status != PORTAMEM_POOL_LIMIT) throw_refused(status);
}

void Upstream::Claim::give_up() noexcept {
    const Callbacks& callbacks = upstream_.callbacks_;
    if (claimed_ != 0) callbacks.ops.unclaim(callbacks.self, std::exchange(claimed_, 0));
    const std::lock_guard<std::mutex> lock(upstream_.heap_.mutex());
    transfer_.end(false);
}

portamem_pool_status Upstream::allocate(std::size_t nbytes, void* stream, void** ptr) {
    const int status = callbacks_.ops.allocate(callbacks_.self, nbytes, stream, ptr);
    if (status != PORTAMEM_POOL_OK) return static_cast<portamem_pool_status>(status);
    try {
        ChunkMap::instance().add(*ptr, nbytes, owner_);
    } catch (...) {
        (void)callbacks_.ops.deallocate(callbacks_.self, *ptr, nbytes);
        throw;
    }
    return PORTAMEM_POOL_OK;
}

int Upstream::deallocate(void* ptr, std::size_t nbytes) {
    ChunkMap& map = ChunkMap::instance();
    // From here on the upstream may give the memory to a program.
    ChunkMap::Span* const span = map.leaves(ptr, owner_);
    const int status = callbacks_.ops.deallocate(callbacks_.self, ptr, nbytes);
    status == PORTAMEM_POOL_OK ? map.remove(span) : ChunkMap::stays(span);
    return status;
}

std::size_t Upstream::release(std::size_t keep, bool throws) {
    std::size_t released = 0;
    for (;;) {
        Chunk chunk;
        Transfer transfer(transfers_);
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            if (heap_.reserved() <= keep || !heap_.remove_chunk(heap_.reserved() - keep, chunk)) return released;
            transfer.begin(chunk.nbytes);  // neither free here nor back yet: it still counts against the limit
        }
        const int status = deallocate(chunk.ptr, chunk.nbytes);
        if (status == PORTAMEM_POOL_OK) {
            if (callbacks_.ops.unclaim != nullptr) callbacks_.ops.unclaim(callbacks_.self, chunk.nbytes);
            {
                const std::lock_guard<std::mutex> lock(heap_.mutex());
                heap_.forget_chunk(chunk);
                shortage_.nbytes = SIZE_MAX;
                shortage_.has_ended();
                transfer.end(true);
            }
            releases_.fetch_add(1, std::memory_order_relaxed);
            released += chunk.nbytes;
            continue;
        }
        {
            const std::lock_guard<std::mutex> lock(heap_.mutex());
            heap_.restore_chunk(chunk);
            transfer.end(false);
        }
        if (throws) throw_refused(status);
        return released;
    }
}

// The next chunks are as small from the start, until memory has gone back: the rest of the upstream's memory is then
// used up in few pieces and few calls.
std::size_t Upstream::next_smaller(std::size_t nbytes, std::size_t least) {
    const std::size_t part = std::max(least, round_up(nbytes / 2, 2 * kPage));
    const std::size_t half = whole(part) < nbytes ? whole(part) : part;
    const std::lock_guard<std::mutex> lock(heap_.mutex());
    shortage_.nbytes = std::min(shortage_.nbytes, nbytes);
    return half < nbytes ? half : least;
}

}  // namespace portamem::pool
