// SPDX-License-Identifier: MIT
// core/pool_settings/settings.hpp: PORTAMEM_POOL and PORTAMEM_POOL_LIMIT as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace portamem::pool_settings {

/// A percentage, as the exact fraction that was written: 12.5 % is 125 of 1000.
struct Percentage {
    std::uint64_t of_hundreds = 0;  ///< 100 times `scale` is the whole
    std::uint64_t scale = 1;        ///< a power of ten

    /// Returns that part of `total`, divided among `sharers` and rounded down.
    std::uint64_t share(std::uint64_t total, std::uint64_t sharers) const;
};

/// Bytes, or a percentage of a device's memory.
using Limit = std::variant<std::uint64_t, Percentage>;

struct Settings {
    bool passthrough = false;
    std::optional<Limit> limit;
    std::string error;  ///< the reason why a value could not be read; empty where all could
};

/// Returns true for "off" and false for "on".
std::optional<bool> parse_passthrough(const std::string& text);

/// Reads "8GiB", "1.5 GB", "70%" or "12.5 %": sizes as everywhere in portamem, percentages above 0 and up to 100.
std::optional<Limit> parse_limit(const std::string& text);

/// Reads the texts of the variables. Null and empty mean unset.
Settings read(const char* pool, const char* limit);

}  // namespace portamem::pool_settings
