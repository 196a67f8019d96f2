// SPDX-License-Identifier: MIT
// portamem/rt/cuda.hpp: the ground floor over the CUDA runtime, 12.0 and later. Twin of hip.hpp and host.hpp.
#pragma once

#include "portamem/rt/cuda/types.hpp"

#include "portamem/rt/api.hpp"

#include "portamem/rt/cuda/copy.hpp"
#include "portamem/rt/cuda/device.hpp"
#include "portamem/rt/cuda/error.hpp"
#include "portamem/rt/cuda/managed.hpp"
#include "portamem/rt/cuda/memory.hpp"
#include "portamem/rt/cuda/pointer.hpp"
#include "portamem/rt/cuda/pool.hpp"
#include "portamem/rt/cuda/stream.hpp"
#include "portamem/rt/cuda/virtual.hpp"
