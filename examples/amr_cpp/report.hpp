// SPDX-License-Identifier: MIT
// amr_cpp/report.hpp: what a simulation on one resource cost: as a table, and in the form that examples/amr writes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.hpp"

struct Figures {
    std::string name;
    std::string resource;  ///< its class and its kind of memory
    std::uint64_t allocations;
    double seconds;         ///< in allocating and freeing, of all threads
    double seconds_in_all;  ///< of all threads
    std::uint64_t runtime_calls;
    std::size_t peak_live;
    std::size_t peak_reserved;
    std::string checksum;
    double worst_error;
    std::array<int, 3> blocks;  ///< first, most, last
    std::vector<Memory::Entry> series;
};

/// What the program ran on.
struct Setting {
    std::string backend;
    std::string device;
    int steps;
    int threads;
};

/// Why the runs are wrong, a line each; nothing where they are right.
std::vector<std::string> faults(const std::vector<Figures>& runs);

void print_table(const Setting& setting, const std::vector<Figures>& runs);

/// Throws std::runtime_error where the file cannot be written.
void write_json(const std::string& path, const Setting& setting, const std::vector<Figures>& runs);
