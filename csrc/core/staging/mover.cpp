// SPDX-License-Identifier: MIT
// core/staging/mover.cpp: moves bytes between host memory and a ring of blocks, on several threads.
#include "mover.hpp"

#include <algorithm>

#include "patience.hpp"

namespace portamem::staging {

namespace {

std::size_t divided_up(std::size_t value, std::size_t by) { return value / by + (value % by != 0 ? 1 : 0); }

}  // namespace

Mover::Mover(const portamem_move& move)
    : host_(move.host),
      ring_(static_cast<char*>(move.ring)),
      block_bytes_(move.block_bytes),
      place_bytes_(move.place_bytes),
      places_(move.places),
      to_ring_(move.to_ring != 0),
      is_cold_(host_.nbytes() <= places_ * block_bytes_),
      pieces_of_block_(divided_up(block_bytes_, kPiece)),
      pieces_(divided_up(host_.nbytes(), block_bytes_) * pieces_of_block_) {}

std::size_t Mover::nbytes_of(std::size_t block) const noexcept {
    return std::min(block_bytes_, host_.nbytes() - block * block_bytes_);
}

void Mover::allow(std::size_t blocks) noexcept {
    limit_.store(std::min(pieces_, blocks * pieces_of_block_), std::memory_order_release);
}

bool Mover::help_once() noexcept {
    std::size_t piece = next_.load(std::memory_order_relaxed);
    do {
        if (piece >= limit_.load(std::memory_order_acquire)) return false;
    } while (!next_.compare_exchange_weak(piece, piece + 1, std::memory_order_relaxed));
    const std::size_t block = piece / pieces_of_block_;
    const std::size_t begin = piece % pieces_of_block_ * kPiece;
    if (begin >= nbytes_of(block)) return true;  // the last block may have fewer pieces
    const std::size_t nbytes = std::min(kPiece, nbytes_of(block) - begin);
    char* const packed = ring_ + block % places_ * place_bytes_ + begin;
    if (to_ring_) {
        host_.pack(packed, block * block_bytes_ + begin, nbytes, is_cold_);
    } else {
        host_.unpack(packed, block * block_bytes_ + begin, nbytes);
    }
    moved_[block % places_].fetch_add(nbytes, std::memory_order_release);
    return true;
}

// Blocks before this one in the same place were whole.
bool Mover::is_moved(std::size_t block) const noexcept {
    return moved_[block % places_].load(std::memory_order_acquire) >= block / places_ * block_bytes_ + nbytes_of(block);
}

void Mover::help() noexcept {
    Patience patience;
    while (!is_over_.load(std::memory_order_relaxed) && next_.load(std::memory_order_relaxed) < pieces_) {
        if (help_once()) {
            patience.renew();
        } else {
            patience.wait();
        }
    }
}

}  // namespace portamem::staging
