// SPDX-License-Identifier: MIT
// portamem/backend.hpp: which backend this translation unit is built for, and its namespaces.
//
// Exactly one of PORTAMEM_CUDA, PORTAMEM_HIP, PORTAMEM_HOST is defined by the build (the CMake targets
// portamem::cuda, portamem::hip and portamem::host carry it). Every type that depends on the choice lives in an
// inline namespace of its own, so that code built for two backends can be loaded into one process without one
// definition of `portamem::Buffer` taking the place of the other.
#pragma once

#if (defined(PORTAMEM_CUDA) + defined(PORTAMEM_HIP) + defined(PORTAMEM_HOST)) != 1
#error "portamem: define exactly one of PORTAMEM_CUDA, PORTAMEM_HIP, PORTAMEM_HOST (e.g. link portamem::host)"
#endif

#if defined(PORTAMEM_CUDA)
#define PORTAMEM_BACKEND backend_cuda
#elif defined(PORTAMEM_HIP)
#define PORTAMEM_BACKEND backend_hip
#else
#define PORTAMEM_BACKEND backend_host
#endif

// Opens and closes portamem::<backend>, home of everything above the ground floor.
#define PORTAMEM_OPEN    \
    namespace portamem { \
    inline namespace PORTAMEM_BACKEND {
#define PORTAMEM_CLOSE \
    }                  \
    }

// Opens and closes portamem::rt::<backend>, the ground floor.
#define PORTAMEM_RT_OPEN \
    namespace portamem { \
    namespace rt {       \
    inline namespace PORTAMEM_BACKEND {
#define PORTAMEM_RT_CLOSE \
    }                     \
    }                     \
    }
