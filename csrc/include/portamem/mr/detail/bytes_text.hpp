// SPDX-License-Identifier: MIT
// portamem/mr/detail/bytes_text.hpp: sizes in words.
#pragma once

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <string>

#include "portamem/backend.hpp"

PORTAMEM_OPEN

namespace detail {

/// Returns a size as text, such as "512 B" or "1.5 MiB".
inline std::string bytes_text(std::size_t nbytes) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    auto value = static_cast<double>(nbytes);
    for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
    char text[48];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.4g %s", value, kUnits[unit]);
    return text;
}

/// Returns a size as text for a sentence that compares it with `other`: exact, such as "1048577 bytes", if the rounded
/// texts of the two are the same and the sizes are not.
inline std::string bytes_text(std::size_t nbytes, std::size_t other) {
    const std::string text = bytes_text(nbytes);
    return nbytes != other && text == bytes_text(other) ? std::to_string(nbytes) + " bytes" : text;
}

}  // namespace detail

PORTAMEM_CLOSE
