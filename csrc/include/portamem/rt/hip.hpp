// SPDX-License-Identifier: MIT
// portamem/rt/hip.hpp: the ground floor over the HIP runtime, 5.2 and later. Twin of cuda.hpp and host.hpp.
#pragma once

#include "portamem/rt/hip/types.hpp"

#include "portamem/rt/api.hpp"

#include "portamem/rt/hip/copy.hpp"
#include "portamem/rt/hip/device.hpp"
#include "portamem/rt/hip/error.hpp"
#include "portamem/rt/hip/managed.hpp"
#include "portamem/rt/hip/memory.hpp"
#include "portamem/rt/hip/pointer.hpp"
#include "portamem/rt/hip/pool.hpp"
#include "portamem/rt/hip/stream.hpp"
#include "portamem/rt/hip/virtual.hpp"
