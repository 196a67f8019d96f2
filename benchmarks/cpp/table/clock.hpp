// SPDX-License-Identifier: MIT
// benchmarks/cpp/table/clock.hpp: time, and figures out of it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace table {

using Clock = std::chrono::steady_clock;

inline double nanoseconds(Clock::duration spent) {
    return std::chrono::duration_cast<std::chrono::duration<double, std::nano>>(spent).count();
}

/// The value that a part of all values does not exceed. part: 0.5 for the median.
inline double quantile(std::vector<double>& values, double part) {
    const auto place = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

}  // namespace table
