// SPDX-License-Identifier: MIT
// portamem/rt/checker.hpp: what the vendor's memory checker is told. Not in rt.hpp: NVTX,
// by which CUDA's is told, has code in every object that includes it, and only pools need it.
#pragma once

#include "portamem/rt/rt.hpp"

#include "portamem/rt/api/checker.hpp"

#if defined(PORTAMEM_CUDA)
#include "portamem/rt/cuda/checker.hpp"
#elif defined(PORTAMEM_HIP)
#include "portamem/rt/hip/checker.hpp"
#else
#include "portamem/rt/host/checker.hpp"
#endif
