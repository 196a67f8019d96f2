// SPDX-License-Identifier: MIT
// portamem/rt/rt.hpp: the ground floor. One thin inline function per vendor primitive, the same on every backend.
//
// A function's name is the vendor's without its prefix: cudaMallocAsync and hipMallocAsync are rt::MallocAsync. Where
// the vendors differ in spelling, HIP's rules. What each function promises is written once, in rt/api/; the three
// folders rt/cuda/, rt/hip/ and rt/host/ implement it, file by file, in the same order.
//
// Rules that hold for every function:
//  - The answer is the return value; no function throws. After a failure the vendor's last-error slot is cleared, so
//    that a handled error never surfaces in an unrelated call. NotReady is an answer, not a failure.
//  - On success it is one vendor call, or none where the request is for 0 bytes. The few that need more, and what each
//    function is under each version of a vendor's headers: evidence/header-matrix.md.
//  - Sizes, pitches and offsets are bytes. Streams are handles; null is the default stream of the current device.
//  - What a vendor's version lacks is bridged here where an older call does the same, and is NotSupported elsewhere.
#pragma once

#include "portamem/backend.hpp"
#include "portamem/rt/enums.hpp"

#if defined(PORTAMEM_CUDA)
#include "portamem/rt/cuda.hpp"
#elif defined(PORTAMEM_HIP)
#include "portamem/rt/hip.hpp"
#else
#include "portamem/rt/host.hpp"
#endif
