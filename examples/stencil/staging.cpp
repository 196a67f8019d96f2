// SPDX-License-Identifier: MIT
// stencil/staging.cpp: bands go up, are computed and come down at the same time, on two streams.
//
//   copies:   up 0 | up 1          down 0 | up 2          down 1 | ...
//   compute:         compute 0            | compute 1            | ...
//
// Two slots take turns. An event after each upload lets the band be computed, an event after that lets it come down.
// All copies are on one stream: a band goes up behind the download of the rows that it reads, and into a slot that its
// former band has left. So one sweep follows the other with nobody waiting on the host.
#include "staging.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <portamem/portamem.hpp>

#include "kernel.hpp"

namespace pm = portamem;

namespace {

// What the kernel works in. The device memory of the host backend is out of the CPU's reach, as a GPU's is, so a kernel
// that runs on the CPU works in managed memory, which has one address for both. All else is the same.
std::shared_ptr<pm::MemoryResource> working_memory(int device) {
    if (kernel_runs_on_cpu()) return std::make_shared<pm::ManagedMemoryResource>(device);
    return std::make_shared<pm::DeviceMemoryResource>(device);
}

// A band on the device: its rows with the halo, its result, and how far it is.
struct Slot {
    Slot(const std::shared_ptr<pm::MemoryResource>& memory, std::size_t band_bytes, std::size_t halo_bytes,
         const std::shared_ptr<pm::Stream>& copies, const std::shared_ptr<pm::Stream>& compute)
        : in(memory, band_bytes + halo_bytes, copies),
          out(memory, band_bytes, copies),
          uploaded(pm::Event::create(copies->device())),
          computed(pm::Event::create(copies->device())) {
        in.record_stream(compute);
        out.record_stream(compute);
    }

    pm::Buffer in;
    pm::Buffer out;
    std::shared_ptr<pm::Event> uploaded;
    std::shared_ptr<pm::Event> computed;
};

}  // namespace

void sweep_on_device(std::vector<double>& grid, const Plan& plan, int device) {
    const std::size_t row_bytes = plan.columns * sizeof(double);
    const std::size_t inner_rows = plan.rows - 2;
    const std::size_t bands = (inner_rows + plan.band_rows - 1) / plan.band_rows;
    const auto rows_of = [&](std::size_t band) { return std::min(plan.band_rows, inner_rows - band * plan.band_rows); };

    const auto copies = pm::Stream::create(device);
    const auto compute = pm::Stream::create(device);
    const auto pinned = std::make_shared<pm::PinnedMemoryResource>(device);
    const auto memory = working_memory(device);

    // Both have the rim, which is never written again.
    const std::array<pm::Buffer, 2> grids{pm::Buffer(pinned, plan.rows * row_bytes, copies),
                                          pm::Buffer(pinned, plan.rows * row_bytes, copies)};
    for (const pm::Buffer& each : grids) std::memcpy(each.ptr(), grid.data(), each.nbytes());
    const std::size_t band_bytes = plan.band_rows * row_bytes;
    const std::array<Slot, 2> slots{Slot(memory, band_bytes, 2 * row_bytes, copies, compute),
                                    Slot(memory, band_bytes, 2 * row_bytes, copies, compute)};

    for (std::size_t sweep = 0; sweep < plan.sweeps; ++sweep) {
        const pm::Buffer& from = grids[sweep % 2];
        const pm::Buffer& to = grids[(sweep + 1) % 2];

        const auto up_and_compute = [&](std::size_t band) {
            const Slot& slot = slots[band % 2];
            const std::size_t nbytes = (rows_of(band) + 2) * row_bytes;
            pm::copy(slot.in.sub(0, nbytes), from.sub(band * band_bytes, nbytes), copies);
            copies->record(*slot.uploaded);
            compute->wait(*slot.uploaded);
            const int answer =
                heat_step(static_cast<const double*>(slot.in.ptr()), static_cast<double*>(slot.out.ptr()),
                          {rows_of(band), plan.columns}, compute->handle());
            pm::check(static_cast<pm::rt::Error_t>(answer), "heat_step");
            compute->record(*slot.computed);
        };
        const auto down = [&](std::size_t band) {
            const Slot& slot = slots[band % 2];
            const std::size_t nbytes = rows_of(band) * row_bytes;
            copies->wait(*slot.computed);
            pm::copy(to.sub(band * band_bytes + row_bytes, nbytes), slot.out.sub(0, nbytes), copies);
        };

        for (std::size_t band = 0; band < bands; ++band) {
            up_and_compute(band);
            if (band > 0) down(band - 1);
        }
        down(bands - 1);
    }
    copies->synchronize();
    std::memcpy(grid.data(), grids[plan.sweeps % 2].ptr(), grids[0].nbytes());
}
