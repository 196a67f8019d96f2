// SPDX-License-Identifier: MIT
// amr_cpp/solver.hpp: drops of dye that drift over a periodic square and fade, on blocks of several sizes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "mesh.hpp"
#include "team.hpp"

/// The simulation in one Memory. Every array is its own: the state, which is made anew in each step, the patches of
/// each level and thread, and the tables of each mesh. As blocks come and go, all of them grow and shrink.
class Solver {
  public:
    Solver(Memory& memory, Team& team, int base, int cells, int levels);

    void step();

    const Mesh& mesh() const { return mesh_; }
    int most_blocks() const { return most_blocks_; }
    /// The largest relative error of the dye's amount over one change of it, against what has to be there.
    double worst_error() const { return worst_; }
    /// Of every bit of the state, and of the mesh that it is on.
    std::uint64_t checksum() const;

  private:
    struct BlockFigures {
        double sum, low, high;
    };

    void advance(int level, int begin, int end, const Array<double>& to, const std::shared_ptr<portamem::Stream>& on);
    void drop();
    void regrid();
    void change_to(Mesh mesh);
    std::vector<BlockFigures> survey() const;
    double amount(const std::vector<BlockFigures>& figures) const;
    void compare(double amount, double expected);
    template <class Body>
    static void queue(const Body& body, std::size_t count, const portamem::Stream& stream);

    Memory& memory_;
    Team& team_;
    const int levels_;
    Mesh mesh_;
    Array<double> state_;
    Array<Edge> edges_;
    double reach_;  // how far the flow goes in one step, by its speed
    int steps_ = 0;
    int drops_ = 0;
    int most_blocks_ = 0;
    double worst_ = 0.0;
};
