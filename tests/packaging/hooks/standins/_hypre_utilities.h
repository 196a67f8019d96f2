// SPDX-License-Identifier: MIT
// A stand-in for hypre: its hook for device memory, and its allocating function, which calls the hook.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <stdexcept>

using HYPRE_Int = int;
using GPUMallocFunc = void (*)(void**, std::size_t);
using GPUMfreeFunc = void (*)(void*);

namespace hypre_standin {

inline GPUMallocFunc user_malloc = nullptr;
inline GPUMfreeFunc user_free = nullptr;

/// Allocates device memory. The real one calls MPI_Abort where this throws.
inline void* allocate(std::size_t nbytes) {
    if (nbytes == 0) return nullptr;
    void* ptr = nullptr;
    user_malloc(&ptr, nbytes);
    if (ptr == nullptr) throw std::runtime_error("Out of memory");
    return ptr;
}
inline void free(void* ptr) {
    if (ptr != nullptr) user_free(ptr);
}

}  // namespace hypre_standin

inline HYPRE_Int hypre_SetUserDeviceMalloc(GPUMallocFunc function) {
    hypre_standin::user_malloc = function;
    return 0;
}
inline HYPRE_Int hypre_SetUserDeviceMfree(GPUMfreeFunc function) {
    hypre_standin::user_free = function;
    return 0;
}
