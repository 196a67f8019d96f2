// SPDX-License-Identifier: MIT
// core/debug/address_sanitizer.cpp: tells AddressSanitizer of the pools' memory.
//
// The functions of AddressSanitizer come with the program, or with a library that is loaded before this one. The weak
// references are null where it is absent.
#include "portamem/abi/pool_annotator.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(void const volatile* begin, size_t nbytes);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile* begin, size_t nbytes);
__attribute__((weak)) int __asan_address_is_poisoned(void const volatile* address);
__attribute__((weak)) void* __asan_region_is_poisoned(void* begin, size_t nbytes);
}

namespace {

bool is_present() {
    return &__asan_poison_memory_region != nullptr && &__asan_unpoison_memory_region != nullptr &&
           &__asan_address_is_poisoned != nullptr && &__asan_region_is_poisoned != nullptr;
}

void poison(void* ptr, size_t nbytes) { __asan_poison_memory_region(ptr, nbytes); }
void unpoison(void* ptr, size_t nbytes) { __asan_unpoison_memory_region(ptr, nbytes); }

}  // namespace

const portamem_pool_annotator* portamem_address_sanitizer(portamem_backend backend, int is_host_accessible) {
    static const portamem_pool_annotator sanitizer = {
        sizeof(portamem_pool_annotator), poison, unpoison, unpoison, poison,
    };
    if (!is_present()) return nullptr;
    // AddressSanitizer does not see work on a real device, and a device's addresses may be those of its own notes.
    return backend == PORTAMEM_BACKEND_HOST || is_host_accessible != 0 ? &sanitizer : nullptr;
}

size_t portamem_address_sanitizer_run(portamem_backend backend, const void* ptr, size_t nbytes, int* is_unused) {
    *is_unused = 0;
    if (backend != PORTAMEM_BACKEND_HOST || !is_present()) return nbytes;
    const auto begin = reinterpret_cast<uintptr_t>(ptr), end = begin + nbytes;
    if (__asan_address_is_poisoned(ptr) == 0) {
        const void* const unused = __asan_region_is_poisoned(const_cast<void*>(ptr), nbytes);
        return unused == nullptr ? nbytes : reinterpret_cast<uintptr_t>(unused) - begin;
    }
    *is_unused = 1;
    // Of eight bytes, the last ones may be unused and the first ones not, but never the other way round.
    uintptr_t at = begin / 8 * 8 + 8;
    while (at < end && __asan_address_is_poisoned(reinterpret_cast<const void*>(at)) != 0) at += 8;
    return at < end ? at - begin : nbytes;
}
