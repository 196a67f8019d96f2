// SPDX-License-Identifier: MIT
// amr_cpp/main.cpp: an adaptive mesh, whose arrays grow and shrink every few steps, on a pool and on plain memory.
//
// amr [--steps 200] [--cells 32] [--levels 4] [--base 4] [--threads 1] [--json FILE]. The same simulation runs twice,
// on two resources, turn by turn, and what each spent on memory is printed. Exits 0 when both end with the same bits
// and the dye was what it has to be in every step, 1 when not or when a call failed, 2 when there is no device.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <portamem/portamem.hpp>

#include "kernels.hpp"
#include "memory.hpp"
#include "report.hpp"
#include "solver.hpp"
#include "team.hpp"

namespace pm = portamem;

namespace {

struct Options {
    std::map<std::string, int> numbers{
        {"--steps", 200}, {"--cells", 32}, {"--levels", 4}, {"--base", 4}, {"--threads", 1}};
    std::string json;

    int operator[](const char* name) const { return numbers.at(name); }
};

constexpr const char* kUsage =
    "usage: %s [--steps 200] [--cells 32] [--levels 4] [--base 4] [--threads 1] [--json FILE]\n"
    "All are at least 1; cells (along a side of a block) are even and at most 256, levels at most 8, base (blocks "
    "along\n"
    "a side of the coarsest mesh) at most 16, threads at most 64.\n";

bool parse(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        if (i + 1 == argc) return false;
        if (name == "--json") {
            options.json = argv[i + 1];
            continue;
        }
        char* end = nullptr;
        const long value = std::strtol(argv[i + 1], &end, 10);
        if (options.numbers.count(name) == 0 || *end != '\0' || value < 1 || value > 1000000) return false;
        options.numbers[name] = static_cast<int>(value);
    }
    return options["--cells"] % 2 == 0 && options["--cells"] <= 256 && options["--levels"] <= 8 &&
           options["--base"] <= 16 && options["--threads"] <= 64;
}

// What the kernels work in, each time by a call to the runtime. The device memory of the host backend is out of the
// CPU's reach, as a GPU's is, so kernels that run on the CPU work in managed memory, which has one address for both.
std::shared_ptr<pm::MemoryResource> plain_memory(int device) {
    if (kernels_run_on_cpu()) return std::make_shared<pm::ManagedMemoryResource>(device);
    return std::make_shared<pm::DeviceMemoryResource>(device);
}
const char* plain_name() { return kernels_run_on_cpu() ? "ManagedMemoryResource" : "DeviceMemoryResource"; }

// A simulation on one resource.
class Run {
  public:
    Run(std::string name, const char* type, std::shared_ptr<pm::MemoryResource> resource,
        std::shared_ptr<pm::StatisticsAdaptor> below, Team& team, const Options& options)
        : name_(std::move(name)),
          type_(type),
          memory_(std::move(resource), std::move(below)),
          team_(team),
          solver_(memory_, team, options["--base"], options["--cells"], options["--levels"]) {}

    void step() {
        const auto begin = std::chrono::steady_clock::now();
        solver_.step();
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

    Figures figures(const Options& options) const {
        char checksum[17];
        std::snprintf(checksum, sizeof checksum, "%016" PRIx64, solver_.checksum());
        return {name_,
                std::string(type_) + ", " + pm::to_string(memory_.resource().kind()),
                memory_.allocations(),
                memory_.seconds(),
                seconds_ * team_.size(),
                memory_.runtime_calls(),
                memory_.peak_live(),
                memory_.peak_reserved(),
                checksum,
                solver_.worst_error(),
                {options["--base"] * options["--base"], solver_.most_blocks(), solver_.mesh().size()},
                memory_.series()};
    }

  private:
    const std::string name_;
    const char* const type_;
    Memory memory_;
    Team& team_;
    Solver solver_;
    double seconds_ = 0.0;
};

int simulate(const Options& options) {
    const pm::Device device(0);  // throws where there is none, with the reason
    Team team(device.ordinal(), options["--threads"]);
    const auto below = std::make_shared<pm::StatisticsAdaptor>(plain_memory(device.ordinal()));
    const auto pool = pm::PoolMemoryResource::create(below);
    Run on_plain("plain", plain_name(), plain_memory(device.ordinal()), nullptr, team, options);
    Run on_pool("pool", "PoolMemoryResource", pool, below, team, options);
    for (int i = 0; i < options["--steps"]; ++i) {
        (i % 2 == 0 ? on_plain : on_pool).step();
        (i % 2 == 0 ? on_pool : on_plain).step();
    }

    const std::vector<Figures> runs{on_plain.figures(options), on_pool.figures(options)};
    const Setting setting{pm::rt::BackendName, device.properties().name, options["--steps"], options["--threads"]};
    print_table(setting, runs);
    if (!options.json.empty()) write_json(options.json, setting, runs);
    const auto found = faults(runs);
    for (const std::string& fault : found) std::fprintf(stderr, "%s\n", fault.c_str());
    return found.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::fprintf(stderr, kUsage, argv[0]);
        return 1;
    }
    try {
        return simulate(options);
    } catch (const pm::Error& error) {
        std::fprintf(stderr, "amr: %s\n", error.what());
        return error.name() == "NoDevice" ? 2 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "amr: %s\n", error.what());
        return 1;
    }
}
