// SPDX-License-Identifier: MIT
// portamem/rt/api.hpp: the contracts of all rt functions, declared once for every backend.
//
// A backend that forgets one does not compile cleanly: an inline function that is declared and never defined is a
// warning, and warnings are errors here.
#pragma once
#include "portamem/rt/api/copy.hpp"
#include "portamem/rt/api/device.hpp"
#include "portamem/rt/api/error.hpp"
#include "portamem/rt/api/managed.hpp"
#include "portamem/rt/api/memory.hpp"
#include "portamem/rt/api/pointer.hpp"
#include "portamem/rt/api/pool.hpp"
#include "portamem/rt/api/stream.hpp"
#include "portamem/rt/api/virtual.hpp"
