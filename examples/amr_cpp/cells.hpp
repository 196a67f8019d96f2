// SPDX-License-Identifier: MIT
// amr_cpp/cells.hpp: what is done to each cell: the same source for the CPU and for GPUs.
//
// Each struct is the body of one loop: its operator() is called once for each number below a count, in any order, by as
// many threads as there are. The state has one square of N x N cells for each block, row by row. The operations and
// their order are written out, and no compiler may fuse them (CMakeLists.txt): all backends give the same bits.
#pragma once

#include <cstddef>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define AMR_FUNCTION __host__ __device__ inline
#else
#define AMR_FUNCTION inline
#endif

/// How fine the blocks of another place are, or were, beside a block's own level.
enum class Relation : int { Same, Coarser, Finer };

/// What lies to the left of a block, or below it: one block, or two that are finer.
struct Edge {
    Relation relation;
    int block;
    int upper;  ///< Finer: the second one along the edge
    int half;   ///< Coarser: which half of that block's edge it is, 0 or 1
};

/// Where a block of a new mesh has its values from: the same block, its parent, or its four children.
struct Origin {
    Relation relation;
    int blocks[4];       ///< Finer: the quarters (0, 0), (1, 0), (0, 1), (1, 1) along (x, y); the first one otherwise
    int half_x, half_y;  ///< Coarser: which quarter of the parent it is
};

/// Where a block's lower left corner is, and how wide a cell. The square has sides of 1.
struct Place {
    double x, y, width;
};

/// What is asked of a row of a block's cells.
struct Row {
    double sum, low, high;
};

AMR_FUNCTION std::size_t cell(int cells, int block, int y, int x) {
    return (static_cast<std::size_t>(block) * static_cast<std::size_t>(cells) + static_cast<std::size_t>(y)) *
               static_cast<std::size_t>(cells) +
           static_cast<std::size_t>(x);
}

/// Which block, row and column a number of the loop stands for, where each block has size x size of them.
struct Position {
    int block, y, x;
};
AMR_FUNCTION Position position(std::size_t i, int size) {
    const auto side = static_cast<std::size_t>(size);
    return {static_cast<int>(i / (side * side)), static_cast<int>(i / side % side), static_cast<int>(i % side)};
}

/// Copies some blocks to patches of (N + 1) x (N + 1) cells, with a row and a column of their neighbours' cells.
struct FillPatches {
    const double* state;
    const Edge* edges;  ///< two for each block: left, below
    double* patches;
    int first;  ///< the block of the first patch
    int cells;

    AMR_FUNCTION void operator()(std::size_t i) const {
        const Position at = position(i, cells + 1);
        const int block = first + at.block;
        if (at.x > 0 && at.y > 0) {
            patches[i] = state[cell(cells, block, at.y - 1, at.x - 1)];
        } else if (at.y > 0) {
            patches[i] = beside(0, block, at.y - 1);
        } else {
            patches[i] = at.x > 0 ? beside(1, block, at.x - 1) : 0.0;  // nobody reads the corner
        }
    }

    /// The mean of what lies left of (side 0) or below (side 1) a cell at the block's edge.
    AMR_FUNCTION double beside(int side, int block, int along) const {
        const Edge edge = edges[2 * block + side];
        const int half = cells / 2;
        if (edge.relation == Relation::Same) return last(side, edge.block, along);
        if (edge.relation == Relation::Coarser) return last(side, edge.block, edge.half * half + along / 2);
        const int finer = along < half ? edge.block : edge.upper;
        const int there = 2 * (along % half);
        return 0.5 * (last(side, finer, there) + last(side, finer, there + 1));
    }
    AMR_FUNCTION double last(int side, int block, int along) const {
        return side == 0 ? state[cell(cells, block, along, cells - 1)] : state[cell(cells, block, cells - 1, along)];
    }
};

/// One step of first-order upwind on some blocks, from their patches; then the dye fades.
struct Advance {
    const double* patches;
    double* state;
    int first;  ///< the block of the first patch
    int cells;
    double along_x, along_y;  ///< the part of a cell that the flow crosses
    double left;              ///< of the dye, when it has faded

    AMR_FUNCTION void operator()(std::size_t i) const {
        const Position at = position(i, cells);
        const double* here = patches + cell(cells + 1, at.block, at.y + 1, at.x + 1);
        const double from_left = along_x * (here[-1] - here[0]);
        const double from_below = along_y * (*(here - (cells + 1)) - here[0]);
        state[cell(cells, first, 0, 0) + i] = ((here[0] + from_left) + from_below) * left;
    }
};

/// Brings the state to a new mesh. No block changes by more than one level.
struct Transfer {
    const double* old_state;
    const Origin* origins;  ///< one for each block
    double* state;
    int cells;

    AMR_FUNCTION void operator()(std::size_t i) const {
        const Position at = position(i, cells);
        const Origin& origin = origins[at.block];
        const int half = cells / 2;
        if (origin.relation == Relation::Same) {
            state[i] = old_state[cell(cells, origin.blocks[0], at.y, at.x)];
        } else if (origin.relation == Relation::Coarser) {
            state[i] = old_state[cell(cells, origin.blocks[0], origin.half_y * half + at.y / 2,
                                      origin.half_x * half + at.x / 2)];
        } else {
            const int child = origin.blocks[2 * (at.y / half) + at.x / half];
            const double* four = old_state + cell(cells, child, 2 * (at.y % half), 2 * (at.x % half));
            state[i] = 0.25 * ((four[0] + four[1]) + (four[cells] + four[cells + 1]));
        }
    }
};

/// Adds a drop of dye: 1 in its middle, 0 from its radius on.
struct Pour {
    const Place* places;  ///< one for each block
    double* state;
    int cells;
    double x, y;        ///< its middle
    double per_radius;  ///< 1 by its radius

    AMR_FUNCTION void operator()(std::size_t i) const {
        const Position at = position(i, cells);
        const Place& place = places[at.block];
        const double across = distance(place.x + (at.x + 0.5) * place.width, x) * per_radius;
        const double along = distance(place.y + (at.y + 0.5) * place.width, y) * per_radius;
        const double inside = 1.0 - (across * across + along * along);
        if (inside > 0.0) state[i] += inside * inside;
    }

    /// The shorter way round: the square's opposite sides are one.
    AMR_FUNCTION static double distance(double a, double b) {
        const double d = a < b ? b - a : a - b;
        return d < 0.5 ? d : 1.0 - d;
    }
};

/// Asks each row for its sum, its least and its greatest value.
struct Survey {
    const double* state;
    Row* rows;
    int cells;

    AMR_FUNCTION void operator()(std::size_t i) const {
        const double* here = state + i * static_cast<std::size_t>(cells);
        Row row{0.0, here[0], here[0]};
        for (int x = 0; x < cells; ++x) {
            row.sum += here[x];
            if (here[x] < row.low) row.low = here[x];
            if (here[x] > row.high) row.high = here[x];
        }
        rows[i] = row;
    }
};
