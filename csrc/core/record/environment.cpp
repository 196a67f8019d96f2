// SPDX-License-Identifier: MIT
// core/record/environment.cpp: the process's recorder, as PORTAMEM_LOG and PORTAMEM_STATS ask for it.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "recorder.hpp"
#include "text.hpp"

int portamem_record_on = 1;  // until the environment is read
int portamem_record_sites = 0;

namespace portamem::record {
namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

void warn_once(const std::string& text) { (void)std::fprintf(stderr, "portamem: %s\n", text.c_str()); }

std::atomic<portamem_recorder*> process{nullptr};

void print_row(const std::string& name, const Counts& counts) {
    (void)std::fprintf(stderr, "  %-44s %12s %12s %12s %12lld %10lld %8lld\n", name.c_str(),
                       size_text(static_cast<double>(counts.current_bytes)).c_str(),
                       size_text(static_cast<double>(counts.peak_bytes)).c_str(),
                       size_text(static_cast<double>(counts.total_bytes)).c_str(),
                       static_cast<long long>(counts.total_count), static_cast<long long>(counts.current_count),
                       static_cast<long long>(counts.failed_count));
}

// Returns the counts without memory that the program has dropped and that only waits for its work.
std::vector<std::pair<portamem_record_resource, Counts>> rows_at_exit(portamem_recorder& recorder) {
    auto rows = recorder.tallies().by_resource();
    for (const Live& live : recorder.live().all()) {
        if (!is_leaving(live)) continue;
        for (auto& [resource, counts] : rows) {
            if (resource.identity != live.filed.resource) continue;
            counts.current_bytes -= static_cast<std::int64_t>(live.nbytes);
            --counts.current_count;
        }
    }
    return rows;
}

void print_table() {
    try {
        const auto rows = rows_at_exit(*process.load());
        (void)std::fprintf(stderr,
                           "portamem: statistics of process %llu, rank %llu\n  %-44s %12s %12s %12s %12s %10s %8s\n",
                           static_cast<unsigned long long>(getpid()), static_cast<unsigned long long>(rank()),
                           "resource", "now", "peak", "total", "allocations", "live", "failed");
        for (const auto& [resource, counts] : rows) {
            print_row(std::string(backend_name(resource.backend)) + " device " + std::to_string(resource.device) + " " +
                          class_name(resource.type) + " " + std::to_string(resource.identity),
                      counts);
        }
        if (rows.empty()) (void)std::fprintf(stderr, "  nothing was allocated\n");
    } catch (const std::exception&) {
        return;
    }
}

portamem_recorder* open_process() {
    const std::string log = variable("PORTAMEM_LOG");
    const std::string stats = variable("PORTAMEM_STATS");
    const bool counts = stats == "exit";
    if (!counts && !stats.empty()) {
        warn_once("PORTAMEM_STATS is exit, for a table when the program ends, not '" + stats +
                  "': no table is printed");
    }
    portamem_recorder* recorder = nullptr;
    if (!log.empty()) {
        try {
            recorder = new portamem_recorder(PORTAMEM_RECORD_SITES, log);
        } catch (const std::exception& e) {
            warn_once(std::string("PORTAMEM_LOG: ") + e.what() + "; nothing is logged");
        }
    }
    if (recorder == nullptr && counts) recorder = new portamem_recorder(0, std::string());
    if (recorder != nullptr) recorder->nest();
    if (recorder != nullptr && counts) print_at_exit(print_table);
    return recorder;
}

}  // namespace

}  // namespace portamem::record

portamem_recorder* portamem_record_process(void) {
    if (portamem_forked() != 0) return nullptr;
    static const bool asked = [] {
        try {
            portamem::record::process.store(portamem::record::open_process());
        } catch (const std::exception&) {
            portamem::record::warn_once(
                "there is no memory to record with: PORTAMEM_LOG and PORTAMEM_STATS do nothing");
        }
        const bool on = portamem::record::process.load() != nullptr;
        __atomic_store_n(&portamem_record_on, on ? 1 : 0, __ATOMIC_RELAXED);
        return on;
    }();
    return asked ? portamem::record::process.load() : nullptr;
}

void portamem_record_prepare(void) {
    static const bool wanted = [] {
        const bool logs = !portamem::record::variable("PORTAMEM_LOG").empty();
        if (logs) __atomic_fetch_add(&portamem_record_sites, 1, __ATOMIC_RELAXED);
        return logs;
    }();
    (void)wanted;
}
