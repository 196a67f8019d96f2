// SPDX-License-Identifier: MIT
// portamem/mr/pool_snapshot.hpp: a pool's pieces and figures, as data and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "portamem/mr/pool_figures.hpp"
#include "portamem/mr/pool_memory_resource.hpp"

PORTAMEM_OPEN

inline const char* to_string(PoolPieceState state) noexcept {
    switch (state) {
        case PoolPieceState::Free:
            return "free";
        case PoolPieceState::Cached:
            return "cached";
        case PoolPieceState::Live:
            return "live";
        case PoolPieceState::Slab:
            return "slab";
    }
    return "unknown";
}

/// Lists the pieces of each chunk of a pool, with its figures; Python's PoolMemoryResource.snapshot() returns the same.
/// The figures are of a moment before the pieces', because threads that allocate meanwhile are not stopped.
struct PoolSnapshot {
    std::size_t used = 0;           ///< bytes that are out, as they were asked for
    std::size_t reserved = 0;       ///< bytes that the pool holds of its upstream
    std::size_t peak = 0;           ///< the most that were reserved at once, since reset_peak()
    std::vector<PoolPiece> pieces;  ///< of every chunk, by address

    /// Takes a snapshot. Throws Error in a forked child, and std::bad_alloc.
    static PoolSnapshot of(const PoolMemoryResource& pool) {
        const PoolStats stats = pool.stats();
        return {stats.used, stats.reserved, stats.peak, pool.snapshot()};
    }
};

namespace detail {

// Writes the one kind of JSON that a snapshot needs: integers and words that need no escape.
class SnapshotText {
  public:
    SnapshotText& open(char bracket) {
        text_ += bracket;
        is_first_ = true;
        return *this;
    }
    SnapshotText& close(char bracket) {
        text_ += bracket;
        is_first_ = false;
        return *this;
    }
    SnapshotText& next() {
        if (!is_first_) text_ += ", ";
        is_first_ = false;
        return *this;
    }
    SnapshotText& key(const char* name) {
        next();
        text_ += '"';
        text_ += name;
        text_ += "\": ";
        return *this;
    }
    SnapshotText& number(const char* name, std::uint64_t value) {
        key(name);
        text_ += std::to_string(value);
        return *this;
    }
    SnapshotText& word(const char* name, const char* value) {
        key(name);
        text_ += '"';
        text_ += value;
        text_ += '"';
        return *this;
    }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
    bool is_first_ = true;
};

}  // namespace detail

/// Returns the snapshot as one JSON object in one line, by the schema of Python's snapshot(), which reads this very
/// text:
///   {"used": 0, "reserved": 0, "peak": 0, "chunks": [{"address": 0, "nbytes": 0, "pieces": [
///     {"address": 0, "nbytes": 0, "state": "free", "stream": 0},
///     {"address": 0, "nbytes": 0, "state": "slab", "blocks": 0, "live": 0, "block_nbytes": 0}]}]}
/// A piece has `stream` where its state is free, and `blocks`, `live` and `block_nbytes` where it is cut into blocks.
/// Numbers are integers, and sizes are in bytes; a reader that parses them as doubles is exact for addresses up to
/// 2^53. Throws std::bad_alloc.
inline std::string to_json(const PoolSnapshot& snapshot) {
    detail::SnapshotText json;
    json.open('{')
        .number("used", snapshot.used)
        .number("reserved", snapshot.reserved)
        .number("peak", snapshot.peak)
        .key("chunks")
        .open('[');
    const PoolPiece* before = nullptr;
    for (const PoolPiece& piece : snapshot.pieces) {
        if (before == nullptr || before->chunk != piece.chunk) {
            if (before != nullptr) json.close(']').close('}');
            json.next().open('{').number("address", piece.chunk).number("nbytes", piece.chunk_nbytes);
            json.key("pieces").open('[');
        }
        before = &piece;
        json.next().open('{').number("address", piece.address).number("nbytes", piece.nbytes);
        json.word("state", to_string(piece.state));
        if (piece.state == PoolPieceState::Free) json.number("stream", piece.stream);
        if (piece.block_nbytes != 0) {
            json.number("blocks", piece.blocks).number("live", piece.live).number("block_nbytes", piece.block_nbytes);
        }
        json.close('}');
    }
    if (before != nullptr) json.close(']').close('}');
    return json.close(']').close('}').take();
}

PORTAMEM_CLOSE
