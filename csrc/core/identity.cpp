// SPDX-License-Identifier: MIT
// core/identity.cpp: versions, and numbers that are never handed out twice.
#include <atomic>

#include "portamem/c_api.h"
#include "portamem/version.h"

#define PORTAMEM_TEXT_(x) #x
#define PORTAMEM_TEXT(x) PORTAMEM_TEXT_(x)

uint32_t portamem_abi_version(void) { return PORTAMEM_ABI_VERSION; }

const char* portamem_version(void) {
    return PORTAMEM_TEXT(PORTAMEM_VERSION_MAJOR) "." PORTAMEM_TEXT(PORTAMEM_VERSION_MINOR) "." PORTAMEM_TEXT(
        PORTAMEM_VERSION_PATCH);
}

uint64_t portamem_new_identity(void) {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
