// SPDX-License-Identifier: MIT
// core/staging/mover.hpp: moves bytes between host memory and a ring of blocks, on several threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "crew.hpp"
#include "host_runs.hpp"
#include "portamem/abi/staging_api.h"

namespace portamem::staging {

/// Moves the bytes of one copy. The copy is cut into blocks, which take the places of the ring in turn, and each block
/// into pieces. A thread takes the next piece and moves it, where its block may be moved.
class Mover final : public Job {
  public:
    static constexpr std::size_t kPiece = std::size_t{128} << 10;

    /// Throws std::bad_alloc.
    explicit Mover(const portamem_move& move);

    /// Lets blocks with lower numbers be moved. Does not take back what was allowed.
    void allow(std::size_t blocks) noexcept;
    /// Moves one piece on this thread. Returns false where none may be moved now.
    bool help_once() noexcept;
    bool is_moved(std::size_t block) const noexcept;
    /// Lets the helpers end after the pieces that they have.
    void stop() noexcept { is_over_.store(true, std::memory_order_relaxed); }

    void help() noexcept override;

  private:
    std::size_t nbytes_of(std::size_t block) const noexcept;

    const HostRuns host_;
    char* const ring_;
    const std::size_t block_bytes_, place_bytes_, places_;
    const bool to_ring_;
    const bool is_cold_;  // no place of the ring is written twice, so its old bytes are not in a cache
    const std::size_t pieces_of_block_, pieces_;

    std::atomic<bool> is_over_{false};
    std::atomic<std::size_t> next_{0};   // first piece that no thread has taken
    std::atomic<std::size_t> limit_{0};  // first piece that may not be moved yet

    // The bytes moved in each place of the ring, over all blocks that it has held: a count that never falls.
    std::array<std::atomic<std::size_t>, PORTAMEM_MOVE_MOST_PLACES> moved_{};
};

}  // namespace portamem::staging
