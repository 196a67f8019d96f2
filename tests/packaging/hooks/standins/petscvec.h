// SPDX-License-Identifier: MIT
// A stand-in for PETSc: vectors over memory that the program has.
#pragma once

#include <petscsys.h>

struct PetscStandinVec {
    const PetscScalar* array;
    PetscInt size;
};
using Vec = PetscStandinVec*;

inline PetscErrorCode VecCreateSeqCUDAWithArray(MPI_Comm, PetscInt, PetscInt size, const PetscScalar* array, Vec* vec) {
    *vec = new PetscStandinVec{array, size};
    return PETSC_SUCCESS;
}
inline PetscErrorCode VecDestroy(Vec* vec) {
    delete *vec;
    *vec = nullptr;
    return PETSC_SUCCESS;
}
