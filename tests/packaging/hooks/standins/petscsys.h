// SPDX-License-Identifier: MIT
// A stand-in for PETSc: its hook for host memory, its errors, and calls of the hook as its macros make them.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

enum PetscErrorCode { PETSC_SUCCESS = 0, PETSC_ERR_MEM = 55, PETSC_ERR_LIB = 76, PETSC_ERR_MEMC = 78 };
enum PetscErrorType { PETSC_ERROR_INITIAL, PETSC_ERROR_REPEAT };
enum PetscBool { PETSC_FALSE, PETSC_TRUE };
using PetscInt = int;
using PetscScalar = double;
using MPI_Comm = int;
inline constexpr MPI_Comm PETSC_COMM_SELF = 0;

namespace petsc_standin {

using Malloc = PetscErrorCode (*)(std::size_t, PetscBool, int, const char[], const char[], void**);
using Free = PetscErrorCode (*)(void*, int, const char[], const char[]);
using Realloc = PetscErrorCode (*)(std::size_t, int, const char[], const char[], void**);

inline Malloc malloc_hook = nullptr;
inline Free free_hook = nullptr;
inline Realloc realloc_hook = nullptr;
inline std::string latest_error;

inline PetscErrorCode allocate(std::size_t nbytes, PetscBool clear, void** result) {
    return malloc_hook(nbytes, clear, __LINE__, __func__, __FILE__, result);
}
inline PetscErrorCode free(void* ptr) { return ptr ? free_hook(ptr, __LINE__, __func__, __FILE__) : PETSC_SUCCESS; }
inline PetscErrorCode reallocate(std::size_t nbytes, void** result) {
    return realloc_hook(nbytes, __LINE__, __func__, __FILE__, result);
}

}  // namespace petsc_standin

inline PetscErrorCode PetscMallocSet(petsc_standin::Malloc malloc, petsc_standin::Free free,
                                     petsc_standin::Realloc realloc) {
    petsc_standin::malloc_hook = malloc;
    petsc_standin::free_hook = free;
    petsc_standin::realloc_hook = realloc;
    return PETSC_SUCCESS;
}

inline PetscErrorCode PetscError(MPI_Comm, int, const char*, const char*, PetscErrorCode code, PetscErrorType,
                                 const char*, const char* text) {
    petsc_standin::latest_error = text;
    return code;
}

#define PetscFunctionBeginUser
#define PetscFunctionReturn(value) return value
#define PetscCall(...)                                      \
    do {                                                    \
        const PetscErrorCode petsc_code = __VA_ARGS__;      \
        if (petsc_code != PETSC_SUCCESS) return petsc_code; \
    } while (false)
#define PetscCallCXX(...)                                      \
    do {                                                       \
        try {                                                  \
            __VA_ARGS__;                                       \
        } catch (const std::exception& petsc_thrown) {         \
            petsc_standin::latest_error = petsc_thrown.what(); \
            return PETSC_ERR_LIB;                              \
        }                                                      \
    } while (false)
