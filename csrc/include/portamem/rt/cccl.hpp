// SPDX-License-Identifier: MIT
// portamem/rt/cccl.hpp: CCCL's streams and errors as the ground floor's. rt.hpp does not include it.
//
// CCCL comes with the program: version 3.2 or later, on the include path, with the headers of a CUDA toolkit.
#pragma once

#if defined(PORTAMEM_HIP)
#error "portamem: cuda::mr is of CCCL, which has no HIP: compile this for portamem::cuda (or for portamem::host)"
#elif !__has_include(<cuda/memory_resource>)
#error "portamem: there is no <cuda/memory_resource> on the include path: add CCCL 3.2 or later"
#endif

#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <cuda/version>

#if CCCL_VERSION < 3002000
#error "portamem: cuda::mr is taken from CCCL 3.2 or later, and this one is older"
#endif

#include "portamem/rt/rt.hpp"

PORTAMEM_RT_OPEN

using CcclError = ::cuda::cuda_error;

inline bool is_out_of_memory(const CcclError& error) noexcept {
    return static_cast<int>(error.status()) == static_cast<int>(Error_t::OutOfMemory);
}

// On the CPU backend a program hands that backend's own handles through cuda::stream_ref.
inline Stream_t handle_of(::cuda::stream_ref stream) noexcept { return reinterpret_cast<Stream_t>(stream.get()); }
inline ::cuda::stream_ref stream_ref_of(Stream_t handle) noexcept {
    return ::cuda::stream_ref(reinterpret_cast<::cuda::stream_ref::value_type>(handle));
}

PORTAMEM_RT_CLOSE
