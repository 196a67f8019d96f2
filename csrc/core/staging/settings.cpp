// SPDX-License-Identifier: MIT
// core/staging/settings.cpp: PORTAMEM_COPY_THREADS as a number.
#include "settings.hpp"

#include <algorithm>

#include "crew.hpp"

namespace portamem::staging {

std::optional<int> parse_threads(const std::string& text) {
    if (text == "off") return 0;
    if (text.empty() || text.size() > 2) return std::nullopt;
    int number = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '9') return std::nullopt;
        number = 10 * number + (digit - '0');
    }
    if (number > Crew::kMostThreads) return std::nullopt;
    return number;
}

int usual_threads(unsigned cpus) {
    const int threads = static_cast<int>(std::min(cpus / 2, 8u));
    return threads > 1 ? threads : 0;
}

}  // namespace portamem::staging
