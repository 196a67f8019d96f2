// SPDX-License-Identifier: MIT
// stencil/reference.cpp: the whole grid in ordinary memory, one thread.
#include "reference.hpp"

#include "heat.hpp"

void sweep_serially(std::vector<double>& grid, const Plan& plan) {
    std::vector<double> next = grid;
    for (std::size_t sweep = 0; sweep < plan.sweeps; ++sweep) {
        for (std::size_t row = 1; row + 1 < plan.rows; ++row) {
            for (std::size_t column = 1; column + 1 < plan.columns; ++column) {
                const std::size_t i = row * plan.columns + column;
                next[i] = heat(grid[i], grid[i - plan.columns], grid[i + plan.columns], grid[i - 1], grid[i + 1]);
            }
        }
        grid.swap(next);
    }
}
