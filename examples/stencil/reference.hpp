// SPDX-License-Identifier: MIT
// stencil/reference.hpp: the same sweeps with nothing but C++.
#pragma once

#include <vector>

#include "staging.hpp"

/// Sweeps the grid one point after the other.
void sweep_serially(std::vector<double>& grid, const Plan& plan);
