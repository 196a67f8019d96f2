// SPDX-License-Identifier: MIT
// core/staging/settings.hpp: PORTAMEM_COPY_THREADS as a number.
#pragma once

#include <optional>
#include <string>

namespace portamem::staging {

/// Reads "off" as 0, and numbers from 0 to Crew::kMostThreads. Anything else is nullopt.
std::optional<int> parse_threads(const std::string& text);

/// Returns the number of threads for a machine on which the process may use `cpus` CPUs.
int usual_threads(unsigned cpus);

}  // namespace portamem::staging
