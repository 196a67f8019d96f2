// SPDX-License-Identifier: MIT
// stencil/kernel_host.cpp: the kernel for the host backend: a C++ function that its stream runs in order.
#include <memory>

#include <portamem/rt/rt.hpp>

#include "heat.hpp"
#include "kernel.hpp"

namespace {

struct Step {
    const double* in;
    double* out;
    Band band;
};

// Runs on a thread of the runtime. Like every function in stream order it calls neither the runtime nor portamem.
void run(void* data) {
    const std::unique_ptr<const Step> step(static_cast<const Step*>(data));
    const std::size_t columns = step->band.columns;
    for (std::size_t row = 0; row < step->band.rows; ++row) {
        const double* north = step->in + row * columns;
        const double* here = north + columns;
        const double* south = here + columns;
        double* out = step->out + row * columns;
        out[0] = here[0];
        for (std::size_t c = 1; c + 1 < columns; ++c)
            out[c] = heat(here[c], north[c], south[c], here[c - 1], here[c + 1]);
        out[columns - 1] = here[columns - 1];
    }
}

}  // namespace

int heat_step(const double* in, double* out, Band band, void* stream) {
    namespace rt = portamem::rt;
    auto step = std::make_unique<Step>(Step{in, out, band});
    const rt::Error_t answer = rt::LaunchHostFunc(static_cast<rt::Stream_t>(stream), &run, step.get());
    if (answer == rt::Error_t::Success) (void)step.release();  // run() has it now
    return static_cast<int>(answer);
}

bool kernel_runs_on_cpu() { return true; }
