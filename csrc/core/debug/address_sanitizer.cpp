// SPDX-License-Identifier: MIT
// core/debug/address_sanitizer.cpp: pools' memory told to AddressSanitizer.
//
// Its functions come with the program, or with what is loaded before it. Weak references are null where it is not.
#include "portamem/abi/pool_annotator.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(void const volatile* begin, size_t nbytes);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile* begin, size_t nbytes);
}

namespace {

void poison(void* ptr, size_t nbytes) { __asan_poison_memory_region(ptr, nbytes); }
void unpoison(void* ptr, size_t nbytes) { __asan_unpoison_memory_region(ptr, nbytes); }

}  // namespace

const portamem_pool_annotator* portamem_address_sanitizer(portamem_backend backend, int is_host_accessible) {
    static const portamem_pool_annotator sanitizer = {
        sizeof(portamem_pool_annotator), poison, unpoison, unpoison, poison,
    };
    if (&__asan_poison_memory_region == nullptr || &__asan_unpoison_memory_region == nullptr) return nullptr;
    // What runs on a real device it does not see, and the device's addresses may be where its own notes are.
    return backend == PORTAMEM_BACKEND_HOST || is_host_accessible != 0 ? &sanitizer : nullptr;
}
