// SPDX-License-Identifier: MIT
// amr_cpp/report.cpp: figures as a table and as JSON.
#include "report.hpp"

#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iomanip>
#include <limits>
#include <stdexcept>

namespace {

constexpr double kRight = 1e-12;  // of the dye's amount, that rounding may take or add in one change
constexpr double kMiB = 1024.0 * 1024.0;

template <class... Values>
std::string text(const char* format, Values... values) {
    char line[160];
    std::snprintf(line, sizeof line, format, values...);
    return line;
}

std::string quoted(const std::string& words) {
    std::string out = "\"";
    for (const char c : words) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out + '"';
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    char date[16];
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    return date;
}

void write(std::ostream& out, const Figures& run) {
    out << "{\"name\": " << quoted(run.name) << ", \"resource\": " << quoted(run.resource)
        << ", \"allocations\": " << run.allocations << ", \"seconds\": " << run.seconds
        << ", \"seconds in all\": " << run.seconds_in_all << ", \"runtime calls\": " << run.runtime_calls
        << ", \"peak live\": " << run.peak_live << ", \"peak reserved\": " << run.peak_reserved
        << ", \"checksum\": " << quoted(run.checksum) << ", \"worst error\": " << run.worst_error << ", \"blocks\": ["
        << run.blocks[0] << ", " << run.blocks[1] << ", " << run.blocks[2] << "], \"series\": [";
    for (std::size_t i = 0; i < run.series.size(); ++i) {
        out << (i == 0 ? "[" : ", [") << i << ", " << run.series[i].live << ", " << run.series[i].reserved << ']';
    }
    out << "]}";
}

}  // namespace

std::vector<std::string> faults(const std::vector<Figures>& runs) {
    std::vector<std::string> found;
    for (const Figures& run : runs) {
        if (run.worst_error <= kRight) continue;
        found.push_back(run.name + text(": in one step %.1e of the dye came or went", run.worst_error));
    }
    for (const Figures& run : runs) {
        if (run.checksum == runs[0].checksum) continue;
        found.push_back("the runs end with other bits: " + runs[0].checksum + ", " + run.checksum);
    }
    return found;
}

void print_table(const Setting& setting, const std::vector<Figures>& runs) {
    std::printf("%s: %s; %d steps, %d to %d blocks, %d thread(s)\n", setting.backend.c_str(), setting.device.c_str(),
                setting.steps, runs[0].blocks[0], runs[0].blocks[1], setting.threads);
    const auto row = [&](const char* what, const std::function<std::string(const Figures&)>& of) {
        std::printf("%-34s", what);
        for (const Figures& run : runs) std::printf("  %-30s", of(run).c_str());
        std::printf("\n");
    };
    const auto integer = [](auto value) { return std::to_string(value); };
    row("", [](const Figures& run) { return run.name + ": " + run.resource; });
    row("allocations", [&](const Figures& run) { return integer(run.allocations); });
    row("time in allocating and freeing", [](const Figures& run) { return text("%.1f ms", run.seconds * 1e3); });
    row("of the time in all",
        [](const Figures& run) { return text("%.1f %%", run.seconds / run.seconds_in_all * 100); });
    row("for each allocation",
        [](const Figures& run) { return text("%.2f us", run.seconds / static_cast<double>(run.allocations) * 1e6); });
    row("calls to the runtime", [&](const Figures& run) { return integer(run.runtime_calls); });
    row("most in use", [](const Figures& run) { return text("%.1f MiB", static_cast<double>(run.peak_live) / kMiB); });
    row("most reserved",
        [](const Figures& run) { return text("%.1f MiB", static_cast<double>(run.peak_reserved) / kMiB); });
    row("reserved over use, at their most", [](const Figures& run) {
        return text("%.2f", static_cast<double>(run.peak_reserved) / static_cast<double>(run.peak_live));
    });
    row("checksum", [](const Figures& run) { return run.checksum; });
    row("worst error of the dye's amount", [](const Figures& run) { return text("%.1e", run.worst_error); });
}

void write_json(const std::string& path, const Setting& setting, const std::vector<Figures>& runs) {
    std::ofstream out(path);
    out << std::setprecision(std::numeric_limits<double>::max_digits10);
    out << "{\"format\": 1, \"program\": \"examples/amr_cpp\", \"backend\": " << quoted(setting.backend)
        << ", \"on\": " << quoted(setting.device) << ", \"steps\": " << setting.steps
        << ", \"threads\": " << setting.threads << ", \"when\": " << quoted(today()) << ", \"runs\": [";
    for (std::size_t i = 0; i < runs.size(); ++i) {
        if (i > 0) out << ", ";
        write(out, runs[i]);
    }
    out << "]}\n";
    if (!out.flush()) throw std::runtime_error("cannot write " + path);
}
