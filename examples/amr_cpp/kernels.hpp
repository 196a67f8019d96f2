// SPDX-License-Identifier: MIT
// amr_cpp/kernels.hpp: how the program has loops run. kernels.cu does it on GPUs, kernels_host.cpp on the CPU.
#pragma once

#include <cstddef>

#include "cells.hpp"

/// Queues body(i) for each i below count on a stream (a native handle). Answers the runtime's error code, 0 when queued.
/// Body: one of the structs of cells.hpp.
template <class Body>
int launch(const Body& body, std::size_t count, void* stream);

/// Whether it is the CPU that reads and writes the cells.
bool kernels_run_on_cpu();

/// What each of the two files says behind its definition of launch().
#define AMR_LAUNCHES                                                    \
    template int launch(const FillPatches&, std::size_t, void* stream); \
    template int launch(const Advance&, std::size_t, void* stream);     \
    template int launch(const Transfer&, std::size_t, void* stream);    \
    template int launch(const Pour&, std::size_t, void* stream);        \
    template int launch(const Survey&, std::size_t, void* stream);
