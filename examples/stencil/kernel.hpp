// SPDX-License-Identifier: MIT
// stencil/kernel.hpp: what the programs need of a kernel. kernel.cu has it for GPUs, kernel_host.cpp for the CPU.
#pragma once

#include <cstddef>

/// Rows of the grid that are computed in one go, and the points of a row.
struct Band {
    std::size_t rows;
    std::size_t columns;
};

/// Queues one step on a stream (a native handle). in: rows + 2 rows, the first and the last are the halo; out: rows.
/// The first and the last point of a row keep their value. Answers the runtime's error code, 0 when queued.
int heat_step(const double* in, double* out, Band band, void* stream);

/// Whether it is the CPU that reads `in` and writes `out`.
bool kernel_runs_on_cpu();
