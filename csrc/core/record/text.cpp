// SPDX-License-Identifier: MIT
// core/record/text.cpp: names and sizes in words.
#include "text.hpp"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>

namespace portamem::record {

const char* backend_name(portamem_backend backend) noexcept {
    switch (backend) {
        case PORTAMEM_BACKEND_CUDA:
            return "cuda";
        case PORTAMEM_BACKEND_HIP:
            return "hip";
        case PORTAMEM_BACKEND_HOST:
            return "host";
    }
    return "unknown";
}

std::string class_name(const char* type) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(type, nullptr, nullptr, &status), std::free);
    const std::string name = plain ? plain.get() : type;
    const std::size_t scope = name.rfind("::", name.find('<'));
    return scope == std::string::npos ? name : name.substr(scope + 2);
}

std::string size_text(double nbytes) {
    static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    std::size_t unit = 0;
    for (; (nbytes >= 1024 || nbytes <= -1024) && unit + 1 < std::size(kUnits); ++unit) nbytes /= 1024;
    char text[48];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.4g %s", nbytes, kUnits[unit]);
    return text;
}

}  // namespace portamem::record
