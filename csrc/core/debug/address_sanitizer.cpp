// SPDX-License-Identifier: MIT
// core/debug/address_sanitizer.cpp: tells AddressSanitizer of the pools' memory.
//
// The functions of AddressSanitizer come with the program, or with a library that is loaded before this one. The weak
// references are null where it is absent.
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
    // AddressSanitizer does not see work on a real device, and a device's addresses may be those of its own notes.
    return backend == PORTAMEM_BACKEND_HOST || is_host_accessible != 0 ? &sanitizer : nullptr;
}
