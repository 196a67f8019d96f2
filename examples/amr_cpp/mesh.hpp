// SPDX-License-Identifier: MIT
// amr_cpp/mesh.hpp: which blocks there are: a quadtree over a periodic square, neighbours at most one level apart.
//
// Everything here is on the host and knows of no memory resource.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "cells.hpp"

/// A level, 0 the coarsest, and a place among the blocks of that level along x and y.
struct Block {
    int level, i, j;

    Block parent() const { return {level - 1, i / 2, j / 2}; }
    /// The quarters (0, 0), (1, 0), (0, 1), (1, 1) along (x, y).
    std::array<Block, 4> children() const {
        const int l = level + 1;
        return {{{l, 2 * i, 2 * j}, {l, 2 * i + 1, 2 * j}, {l, 2 * i, 2 * j + 1}, {l, 2 * i + 1, 2 * j + 1}}};
    }
    friend bool operator<(const Block& a, const Block& b) {
        return std::tie(a.level, a.i, a.j) < std::tie(b.level, b.i, b.j);
    }
    friend bool operator==(const Block& a, const Block& b) {
        return std::tie(a.level, a.i, a.j) == std::tie(b.level, b.i, b.j);
    }
};

/// The leaves of the tree in order of their levels, so that each level is one piece of the state.
class Mesh {
  public:
    struct Level {
        int level, begin, end;  ///< of the blocks
    };

    /// base: blocks along a side of the square, on level 0. cells: along a side of a block, even.
    Mesh(int base, int cells, std::vector<Block> blocks);
    static Mesh uniform(int base, int cells);

    int base() const { return base_; }
    int cells() const { return cells_; }
    int size() const { return static_cast<int>(blocks_.size()); }
    const std::vector<Block>& blocks() const { return blocks_; }
    std::size_t cells_in_all() const { return cell(cells_, size(), 0, 0); }

    std::vector<Level> levels() const;
    /// The number of a block; -1 where it is no leaf.
    int find(const Block& block) const;
    /// Of a cell.
    double width(int level) const { return 1.0 / (static_cast<double>(base_) * cells_ * (1 << level)); }
    /// The block at a place that may lie across the square's edge.
    Block around(int level, int i, int j) const;
    /// The eight places around a block, on its own level.
    std::array<Block, 8> neighbours(const Block& block) const;

  private:
    int base_;
    int cells_;
    std::vector<Block> blocks_;
    std::map<Block, int> index_;
};

/// The mesh of the next steps: no block changes by more than one level. refine: whether a block is to become four.
/// coarsen: whether four siblings may become one.
Mesh adapted(const Mesh& mesh, const std::function<bool(const Block&)>& refine,
             const std::function<bool(const std::array<Block, 4>&)>& coarsen);

/// For each block what lies to its left and below it.
std::vector<Edge> edges(const Mesh& mesh);

/// For each block of a new mesh where its values come from.
std::vector<Origin> origins(const Mesh& old_mesh, const Mesh& mesh);

/// Where each block is.
std::vector<Place> places(const Mesh& mesh);
