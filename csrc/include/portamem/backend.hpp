// SPDX-License-Identifier: MIT
// portamem/backend.hpp: which backend this translation unit is built for, and its namespaces.
//
// The build defines exactly one of PORTAMEM_CUDA, PORTAMEM_HIP and PORTAMEM_HOST (the CMake targets portamem::cuda,
// portamem::hip and portamem::host carry it). Every type lives in an inline namespace that names the backend and the
// version of the headers, such as backend_host_v0_2. So one process can have two libraries that are built for two
// backends, or with two versions, and no definition of `portamem::Buffer` takes the place of another.
#pragma once

#include "portamem/version.h"

#if (defined(PORTAMEM_CUDA) + defined(PORTAMEM_HIP) + defined(PORTAMEM_HOST)) != 1
#error "portamem: define exactly one of PORTAMEM_CUDA, PORTAMEM_HIP, PORTAMEM_HOST (e.g. link portamem::host)"
#endif

#define PORTAMEM_VERSIONED_AS(name, major, minor) name##_v##major##_##minor
#define PORTAMEM_VERSIONED(name, major, minor) PORTAMEM_VERSIONED_AS(name, major, minor)
#if defined(PORTAMEM_CUDA)
#define PORTAMEM_BACKEND PORTAMEM_VERSIONED(backend_cuda, PORTAMEM_VERSION_MAJOR, PORTAMEM_VERSION_MINOR)
#elif defined(PORTAMEM_HIP)
#define PORTAMEM_BACKEND PORTAMEM_VERSIONED(backend_hip, PORTAMEM_VERSION_MAJOR, PORTAMEM_VERSION_MINOR)
#else
#define PORTAMEM_BACKEND PORTAMEM_VERSIONED(backend_host, PORTAMEM_VERSION_MAJOR, PORTAMEM_VERSION_MINOR)
#endif

// These open and close portamem::<backend>, the home of everything above the ground floor.
#define PORTAMEM_OPEN    \
    namespace portamem { \
    inline namespace PORTAMEM_BACKEND {
#define PORTAMEM_CLOSE \
    }                  \
    }

// These open and close portamem::rt::<backend>, the ground floor.
#define PORTAMEM_RT_OPEN \
    namespace portamem { \
    namespace rt {       \
    inline namespace PORTAMEM_BACKEND {
#define PORTAMEM_RT_CLOSE \
    }                     \
    }                     \
    }
