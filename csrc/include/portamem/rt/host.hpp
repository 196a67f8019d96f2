// SPDX-License-Identifier: MIT
// portamem/rt/host.hpp: the ground floor over the CPU reference runtime. Twin of cuda.hpp and hip.hpp.
#pragma once

#include "portamem/rt/host/types.hpp"

#include "portamem/rt/api.hpp"

#include "portamem/rt/host/copy.hpp"
#include "portamem/rt/host/device.hpp"
#include "portamem/rt/host/error.hpp"
#include "portamem/rt/host/managed.hpp"
#include "portamem/rt/host/memory.hpp"
#include "portamem/rt/host/pointer.hpp"
#include "portamem/rt/host/pool.hpp"
#include "portamem/rt/host/stream.hpp"
#include "portamem/rt/host/virtual.hpp"
