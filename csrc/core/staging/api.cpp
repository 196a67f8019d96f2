// SPDX-License-Identifier: MIT
// core/staging/api.cpp: what carries large copies, as C functions.
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "../own_threads.hpp"
#include "crew.hpp"
#include "mover.hpp"
#include "patience.hpp"
#include "portamem/abi/staging_api.h"
#include "settings.hpp"

namespace {

using namespace portamem;
using portamem::staging::Crew;

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

struct portamem_mover {
    explicit portamem_mover(const portamem_move& move) : mover(move) {}

    portamem::staging::Mover mover;
    portamem::staging::Patience patience;  // of the thread that began
    bool has_crew = false;
};

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

portamem_mover* portamem_move_begin(const portamem_move* move, int threads) {
    try {
        auto mover = std::make_unique<portamem_mover>(*move);
        mover->has_crew = threads > 1 && portamem_forked() == 0 && Crew::instance().begin(mover->mover, threads - 1);
        return mover.release();
    } catch (...) {
        return nullptr;  // host memory is short
    }
}

void portamem_move_allow(portamem_mover* mover, size_t blocks) { mover->mover.allow(blocks); }

int portamem_move_help(portamem_mover* mover) {
    const bool helped = mover->mover.help_once();
    if (helped) {
        mover->patience.renew();
    } else {
        mover->patience.wait();
    }
    return helped ? 1 : 0;
}

int portamem_move_is_done(const portamem_mover* mover, size_t block) { return mover->mover.is_moved(block) ? 1 : 0; }

void portamem_move_end(portamem_mover* mover) {
    mover->mover.stop();
    if (mover->has_crew) Crew::instance().end();
    delete mover;
}
