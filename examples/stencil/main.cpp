// SPDX-License-Identifier: MIT
// stencil/main.cpp: the heat equation on a grid that goes through the device band by band, against a serial reference.
//
// stencil [ROWS COLUMNS SWEEPS BAND_ROWS]. Exits 0 when device and reference have the same bits, 1 when they differ or a
// call failed, 2 when there is no device.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include <portamem/portamem.hpp>

#include "reference.hpp"
#include "staging.hpp"

namespace pm = portamem;

static std::vector<double> start(const Plan& plan) {
    std::vector<double> grid(plan.rows * plan.columns);
    for (std::size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<double>(i * 7919 % 1009) / 1009.0;
    std::fill_n(grid.begin(), plan.columns, 100.0);  // one hot edge
    return grid;
}

// FNV-1a, 64 bits, over the bytes of the grid.
static std::uint64_t checksum(const std::vector<double>& grid) {
    std::uint64_t sum = 14695981039346656037u;
    const auto* bytes = reinterpret_cast<const unsigned char*>(grid.data());
    for (std::size_t i = 0; i < grid.size() * sizeof(double); ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
    return sum;
}

static int compare(const Plan& plan) {
    const pm::Device device(0);  // throws where there is none, with the reason
    std::vector<double> computed = start(plan);
    std::vector<double> reference = computed;
    sweep_on_device(computed, plan, device.ordinal());
    sweep_serially(reference, plan);

    double difference = 0;
    for (std::size_t i = 0; i < computed.size(); ++i) {
        difference = std::max(difference, std::abs(computed[i] - reference[i]));
    }
    const bool same = std::memcmp(computed.data(), reference.data(), computed.size() * sizeof(double)) == 0;
    std::printf("%zu x %zu points, %zu sweeps in bands of %zu rows, on %s\n", plan.rows, plan.columns, plan.sweeps,
                plan.band_rows, device.properties().name);
    std::printf("checksum %016" PRIx64 ", max difference %g: %s\n", checksum(computed), difference,
                same ? "the same bits as the reference" : "NOT the reference");
    return same ? 0 : 1;
}

int main(int argc, char** argv) {
    Plan plan{1000, 1003, 20, 96};
    if (argc == 5) {
        std::size_t* const fields[] = {&plan.rows, &plan.columns, &plan.sweeps, &plan.band_rows};
        for (int i = 0; i < 4; ++i) *fields[i] = std::strtoull(argv[i + 1], nullptr, 10);
    }
    const std::size_t most = 1 << 16;
    if ((argc != 1 && argc != 5) || plan.rows < 3 || plan.rows > most || plan.columns < 2 || plan.columns > most ||
        plan.band_rows < 1) {
        std::fprintf(
            stderr,
            "usage: %s [ROWS COLUMNS SWEEPS BAND_ROWS], at least 3, 2, 0 and 1, and at most %zu points a side\n",
            argv[0], most);
        return 1;
    }
    plan.band_rows = std::min(plan.band_rows, plan.rows - 2);
    try {
        return compare(plan);
    } catch (const pm::Error& error) {
        std::fprintf(stderr, "stencil: %s\n", error.what());
        return error.name() == "NoDevice" ? 2 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "stencil: %s\n", error.what());
        return 1;
    }
}
