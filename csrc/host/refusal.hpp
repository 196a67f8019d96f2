// SPDX-License-Identifier: MIT
// host/refusal.hpp: how a call fails: a code and a sentence, thrown to the call's entry.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "portamem/host/runtime_api.h"

namespace portamem::host {

/// The bytes of a sentence. Each thread keeps the latest in static storage, where other libraries need room too.
inline constexpr std::size_t kDetail = 128;

struct Refusal {
    pmhError_t code;
    char detail[kDetail];
};

[[noreturn, gnu::format(printf, 2, 3)]] inline void refuse(pmhError_t code, const char* format, ...) {
    Refusal refusal{code, {}};
    std::va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(refusal.detail, sizeof refusal.detail, format, arguments);
    va_end(arguments);
    throw refusal;
}

/// Refuses null out-parameters and the like with InvalidValue: the code says enough.
inline void require(bool condition, const char* what) {
    if (!condition) refuse(pmhErrorInvalidValue, "%s", what);
}

}  // namespace portamem::host
