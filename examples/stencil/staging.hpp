// SPDX-License-Identifier: MIT
// stencil/staging.hpp: a grid of any size, swept by a device that holds two bands of it at a time.
#pragma once

#include <cstddef>
#include <vector>

struct Plan {
    std::size_t rows;  ///< of the grid, its rim included
    std::size_t columns;
    std::size_t sweeps;
    std::size_t band_rows;  ///< rows that are computed in one go
};

/// Sweeps the grid (rows x columns, row by row) on a device, through pinned memory. The rim keeps its values.
/// Throws portamem::Error.
void sweep_on_device(std::vector<double>& grid, const Plan& plan, int device);
