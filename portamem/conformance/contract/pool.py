# SPDX-License-Identifier: MIT
"""Pools: threshold, trim, counters, reuse."""

from __future__ import annotations

from portamem.conformance.clause import Clause, Defect, Shortfall

_THRESHOLD_IGNORED = (
    Defect(
        "amd",
        "a release threshold is accepted and ignored: a pool keeps nothing over a synchronize",
        "https://github.com/ROCm/rocm-systems/issues/11690",
    ),
)

CLAUSES = (
    Clause(
        "POOL-01",
        "A resource with a pool of its own begins with nothing used and nothing reserved, and keeps what it has "
        "reserved when nothing of it is used any more.",
        shortfalls=(
            Shortfall(
                "both",
                "a new pool's release threshold is 0: every synchronize gives its memory back",
                "bridged",
                "CUDA runtime API and HIP runtime API, MemPoolSetAttribute: the default is 0",
            ),
        ),
        defects=_THRESHOLD_IGNORED,
    ),
    Clause(
        "POOL-02",
        "A release threshold reads back as it was set, by any spelling of a size, at the making or later.",
        "the driver's pools",
    ),
    Clause(
        "POOL-03",
        "A release threshold is obeyed: after a synchronize a pool without used memory has no more than that reserved, "
        "and gives back nothing that is within it.",
        shortfalls=(
            Shortfall(
                "amd",
                "some versions take a threshold and ignore it",
                "capability",
                "Device.probe().pool_threshold_effective, found by trying",
            ),
        ),
    ),
    Clause(
        "POOL-04",
        "trim(keep) gives unused memory back until no more than keep is reserved, and nothing where less is.",
        defects=_THRESHOLD_IGNORED,
    ),
    Clause(
        "POOL-05",
        "trim leaves memory alone that is in use, or whose free has not run yet.",
        "the driver's pools",
    ),
    Clause(
        "POOL-06",
        "used is what is allocated and reserved no less than that; both are of this pool alone, and used is back to "
        "what it was when the frees have run.",
        "the driver's pools",
    ),
    Clause(
        "POOL-07",
        "The high-water marks are the most that was used and reserved since they were reset, and a reset takes them to "
        "what is current.",
        shortfalls=(
            Shortfall(
                "both",
                "the marks can be set to 0 only, which means what is current",
                "bridged",
                "CUDA runtime API, MemPoolSetAttribute: can only be reset to zero",
            ),
        ),
    ),
    Clause(
        "POOL-08",
        "All three reuse policies are on in a new pool; each can be switched alone and reads back as it was set.",
        shortfalls=(
            Shortfall(
                "both",
                "the policies are int behind a void pointer, and the sizes 64 bits wide",
                "bridged",
                "CUDA runtime API and HIP runtime API, MemPoolSetAttribute: the types of the values",
            ),
        ),
    ),
    Clause(
        "POOL-09",
        "Without reuse policies no stream gets memory whose free on another stream has not run.",
    ),
    Clause(
        "POOL-10",
        "Memory whose free has run serves every stream: going from stream to stream reserves nothing more.",
        "the driver's pools",
    ),
    Clause(
        "POOL-11",
        "Where the runtime enforces max_size, a pool refuses with OutOfMemoryError what would make it larger, and goes "
        "on once memory was given back.",
        shortfalls=(
            Shortfall(
                "both",
                "pools have no maximal size before CUDA 12 and HIP 6.4",
                "capability",
                "driver_types.h of CUDA 11.8 and 12.9, hip_runtime_api.h of HIP 6.2 and 6.4: MemPoolProps.maxSize",
            ),
        ),
    ),
    Clause(
        "POOL-12",
        "A pool's own device reads and writes its memory, and another only after set_access, which access tells.",
        "the driver's pools",
    ),
    Clause(
        "POOL-13",
        "Copies to and from memory of a pool that another device was given access to carry the right bytes.",
    ),
    Clause(
        "POOL-14",
        "Over the device's default pool nothing is changed unasked: neither its settings, nor which pool is current, "
        "by resources of either kind.",
    ),
    Clause(
        "POOL-15",
        "default_pool is the device's own pool, the same each time, and changes only by what is set on it.",
    ),
    Clause(
        "POOL-16",
        "A resource over somebody else's pool allocates from it, keeps the owner that was named, and leaves the pool "
        "as it is when it is closed. 0 is no pool.",
    ),
    Clause(
        "POOL-17",
        "Allocating from a pool takes a stream, by name, of the pool's own device; anything else is refused in words, "
        "before any runtime call.",
        "the driver's pools",
    ),
    Clause(
        "POOL-18",
        "Sizes that are negative, no whole numbers or no sizes at all, policies that are not True or False and words "
        "that mean no access are refused, and nothing is changed.",
        "the driver's pools",
    ),
    Clause("POOL-19", "A pool is closed once and refuses every use from then on, in words."),
    Clause(
        "POOL-20",
        "What a pool says of itself, and what is set on it, is what the runtime says and gets.",
        "the driver's pools",
    ),
    Clause(
        "POOL-21",
        "Pools of closed resources serve again once their frees have run, with the settings of new ones: making and "
        "closing any number of resources of one max_size makes no more pools than were open, or had frees pending, at "
        "once.",
    ),
)
