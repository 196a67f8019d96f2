// SPDX-License-Identifier: MIT
// amr_cpp/mesh.cpp: the quadtree, and the tables that kernels read of it.
#include "mesh.hpp"

#include <algorithm>
#include <set>
#include <utility>

Mesh::Mesh(int base, int cells, std::vector<Block> blocks) : base_(base), cells_(cells), blocks_(std::move(blocks)) {
    for (int i = 0; i < size(); ++i) index_.emplace(blocks_[static_cast<std::size_t>(i)], i);
}

Mesh Mesh::uniform(int base, int cells) {
    std::vector<Block> blocks;
    for (int i = 0; i < base; ++i) {
        for (int j = 0; j < base; ++j) blocks.push_back({0, i, j});
    }
    return Mesh(base, cells, std::move(blocks));
}

std::vector<Mesh::Level> Mesh::levels() const {
    std::vector<Level> found;
    for (int i = 0; i < size(); ++i) {
        const int level = blocks_[static_cast<std::size_t>(i)].level;
        if (found.empty() || found.back().level != level) found.push_back({level, i, i});
        found.back().end = i + 1;
    }
    return found;
}

int Mesh::find(const Block& block) const {
    const auto found = index_.find(block);
    return found == index_.end() ? -1 : found->second;
}

Block Mesh::around(int level, int i, int j) const {
    const int side = base_ << level;
    return {level, (i + side) % side, (j + side) % side};
}

std::array<Block, 8> Mesh::neighbours(const Block& block) const {
    std::array<Block, 8> found{};
    std::size_t count = 0;
    for (int dj = -1; dj <= 1; ++dj) {
        for (int di = -1; di <= 1; ++di) {
            if (di != 0 || dj != 0) found[count++] = around(block.level, block.i + di, block.j + dj);
        }
    }
    return found;
}

namespace {

// Splits blocks, and what is two levels coarser than a part of them. That was a leaf before, so it changes by one level.
void split(const Mesh& mesh, std::vector<Block> to_split, std::set<Block>& leaves) {
    while (!to_split.empty()) {
        const Block block = to_split.back();
        to_split.pop_back();
        if (leaves.erase(block) == 0) continue;
        for (const Block& child : block.children()) {
            leaves.insert(child);
            for (const Block& near : mesh.neighbours(child)) {
                const Block old = near.parent().parent();
                if (leaves.count(old) != 0) to_split.push_back(old);
            }
        }
    }
}

// Whether blocks finer than these siblings lie beside them: they would be two levels finer than their parent.
bool is_beside_finer(const Mesh& mesh, const std::array<Block, 4>& siblings, const std::set<Block>& leaves) {
    for (const Block& one : siblings) {
        for (const Block& near : mesh.neighbours(one)) {
            for (const Block& child : near.children()) {
                if (leaves.count(child) != 0) return true;
            }
        }
    }
    return false;
}

}  // namespace

Mesh adapted(const Mesh& mesh, const std::function<bool(const Block&)>& refine,
             const std::function<bool(const std::array<Block, 4>&)>& coarsen) {
    std::set<Block> leaves(mesh.blocks().begin(), mesh.blocks().end());
    std::vector<Block> rough;
    std::copy_if(mesh.blocks().begin(), mesh.blocks().end(), std::back_inserter(rough), refine);
    split(mesh, std::move(rough), leaves);

    // From the finest on, and only what was there before: nothing changes twice.
    for (auto block = mesh.blocks().rbegin(); block != mesh.blocks().rend(); ++block) {
        if (block->level == 0 || block->i % 2 != 0 || block->j % 2 != 0) continue;
        const auto siblings = block->parent().children();
        const bool are_whole = std::all_of(siblings.begin(), siblings.end(), [&](const Block& one) {
            return leaves.count(one) != 0 && mesh.find(one) >= 0;
        });
        if (!are_whole || is_beside_finer(mesh, siblings, leaves) || !coarsen(siblings)) continue;
        for (const Block& one : siblings) leaves.erase(one);
        leaves.insert(block->parent());
    }
    return Mesh(mesh.base(), mesh.cells(), {leaves.begin(), leaves.end()});
}

namespace {

// What is at a place beside a block. side: 0 left, 1 below; half: the block's own place in its parent's edge.
Edge edge_to(const Mesh& mesh, const Block& place, std::size_t side, int half) {
    if (const int same = mesh.find(place); same >= 0) return {Relation::Same, same, -1, 0};
    if (const int coarser = mesh.find(place.parent()); coarser >= 0) return {Relation::Coarser, coarser, -1, half};
    // Its right two, or its upper two.
    const auto children = place.children();
    return {Relation::Finer, mesh.find(children[side == 0 ? 1 : 2]), mesh.find(children[3]), 0};
}

}  // namespace

std::vector<Edge> edges(const Mesh& mesh) {
    std::vector<Edge> found;
    for (const Block& block : mesh.blocks()) {
        found.push_back(edge_to(mesh, mesh.around(block.level, block.i - 1, block.j), 0, block.j % 2));
        found.push_back(edge_to(mesh, mesh.around(block.level, block.i, block.j - 1), 1, block.i % 2));
    }
    return found;
}

std::vector<Origin> origins(const Mesh& old_mesh, const Mesh& mesh) {
    std::vector<Origin> found;
    for (const Block& block : mesh.blocks()) {
        Origin origin{Relation::Same, {old_mesh.find(block), -1, -1, -1}, block.i % 2, block.j % 2};
        if (origin.blocks[0] < 0) {
            origin.relation = Relation::Coarser;
            origin.blocks[0] = old_mesh.find(block.parent());
        }
        if (origin.blocks[0] < 0) {
            origin.relation = Relation::Finer;
            const auto children = block.children();
            for (std::size_t i = 0; i < 4; ++i) origin.blocks[i] = old_mesh.find(children[i]);
        }
        found.push_back(origin);
    }
    return found;
}

std::vector<Place> places(const Mesh& mesh) {
    std::vector<Place> found;
    for (const Block& block : mesh.blocks()) {
        const double width = mesh.width(block.level);
        const double side = width * mesh.cells();
        found.push_back({block.i * side, block.j * side, width});
    }
    return found;
}
