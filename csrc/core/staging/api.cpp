// SPDX-License-Identifier: MIT
// core/staging/api.cpp: the threads of large copies as C functions.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "../own_threads.hpp"
#include "crew.hpp"
#include "portamem/abi/staging_api.h"
#include "settings.hpp"

namespace {

using namespace portamem;

struct Setting {
    std::string text;
    std::optional<int> threads;

    Setting() {
        const char* const value = std::getenv("PORTAMEM_COPY_THREADS");
        if (value == nullptr || *value == '\0') return;
        text = value;
        threads = staging::parse_threads(text);
    }
};

const Setting& setting() {
    static const auto* leaked = new Setting;
    return *leaked;
}

}  // namespace

int portamem_copy_threads(int by_default, const char** unreadable) {
    try {
        const Setting& set = setting();
        if (set.threads) return *set.threads;
        if (set.text.empty()) return by_default != 0 ? staging::usual_threads(usable_cpus(getpid())) : 0;
        *unreadable = set.text.c_str();
        return -1;
    } catch (...) {
        return 0;  // host memory is short
    }
}

void portamem_copy_bytes(void* dst, const void* src, size_t nbytes, int threads) {
    if (nbytes == 0) return;  // either may be null then
    try {
        if (threads > 1 && portamem_forked() == 0 &&
            staging::Crew::instance().copy(static_cast<char*>(dst), static_cast<const char*>(src), nbytes, threads))
            return;
    } catch (...) {  // there is no crew: host memory is short
    }
    std::memcpy(dst, src, nbytes);
}
