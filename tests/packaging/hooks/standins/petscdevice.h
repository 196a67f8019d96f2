// SPDX-License-Identifier: MIT
// A stand-in for PETSc: the device context, and its stream.
#pragma once

#include <petscsys.h>
#include <portamem/rt/rt.hpp>

struct PetscStandinContext {
    portamem::rt::Stream_t stream{};
};
using PetscDeviceContext = PetscStandinContext*;

inline PetscErrorCode PetscDeviceContextGetCurrentContext(PetscDeviceContext* context) {
    static PetscStandinContext current;
    *context = &current;
    return PETSC_SUCCESS;
}
inline PetscErrorCode PetscDeviceContextGetStreamHandle(PetscDeviceContext context, void** handle) {
    *handle = &context->stream;
    return PETSC_SUCCESS;
}
