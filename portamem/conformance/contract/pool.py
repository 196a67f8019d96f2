# SPDX-License-Identifier: MIT
"""Pools, the driver's and portamem's: threshold, trim, counters, reuse."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Defect, Shortfall

THRESHOLD_IGNORED = Defect(
    "amd",
    "a release threshold is accepted and ignored: a pool keeps nothing over a synchronize",
    "https://github.com/ROCm/rocm-systems/issues/11690",
    "seen in 7.2.1, in the heap of the 7 series, whose first version to have it is unknown; the fix (ROCm/clr#287) is "
    "in no release",
    (
        "error.figures_of_a_pool_with_memory_that_is_cached",
        "pool_figures.it_keeps_what_it_has_reserved",
        "pool_figures.it_keeps_what_it_has_reserved_as_the_witness_sees_it",
        "pool_figures.trim",
        "pool_figures.trim_as_the_witness_sees_it",
    ),
    since=(7, 0),
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
        defects=(THRESHOLD_IGNORED,),
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
                "ROCm/rocm-systems#11690; measured by Device.probe() on the device at hand",
            ),
        ),
    ),
    Clause(
        "POOL-04",
        "trim(keep) gives unused memory back until no more than keep is reserved, and nothing where less is.",
        defects=(THRESHOLD_IGNORED,),
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
        "Where headers, runtime and driver have pools of a maximal size, one that is made with max_size refuses with "
        "OutOfMemoryError what would make it larger, and goes on once memory was given back.",
        shortfalls=(
            Shortfall(
                "both",
                "pools have no maximal size before CUDA 12.2 and HIP 6.4",
                "capability",
                "driver_types.h of CUDA 12.0 and 12.9, hip_runtime_api.h of HIP 6.1 and 7.1: MemPoolProps.maxSize; "
                "intel/llvm#17733; ROCm/hip#3422",
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
        shortfalls=(
            Shortfall(
                "nvidia",
                "a copy right after a pool was opened to the other device may write nothing (sm_75, from CUDA 13.2 on)",
                "allowed",
                "JuliaGPU/CUDA.jl#3112",
            ),
        ),
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
        "A resource over another library's pool allocates from it, keeps the owner that was named, and leaves the pool "
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
    Clause(
        "POOL-22",
        "A PoolMemoryResource takes nothing of its upstream before it must, little more than it must, and gives all of "
        "it back when it is closed. What a buffer that is made anew, each time larger, has outgrown goes back: at most "
        "2.2 times of what was out at once is reserved.",
        "pools",
    ),
    Clause(
        "POOL-23",
        "Memory that a stream gave back is that stream's again at once, before the work on it is done, where the host "
        "does not reach it: a loop takes no more of the device than its first turn. A block above 1 MiB is so for "
        "every thread of the stream, a smaller one for the thread that gave it back.",
        "pools of memory that devices alone reach",
    ),
    Clause(
        "POOL-24",
        "Another stream gets it only behind the work that was declared on it, without a wait of the host's while there "
        "is other memory.",
        "pools",
    ),
    Clause(
        "POOL-25",
        "Memory that the host reaches is handed out again only when the work on it has run, that of its own stream and "
        "of each that was declared: the next owner may write to it from the host at once. After that it is handed "
        "out again.",
        "pools of memory that the host reaches",
    ),
    Clause(
        "POOL-26",
        "Memory of a stream that was closed serves others, behind that stream's last work; a stream that comes by the "
        "handle of an earlier one is not taken for it.",
        "pools",
    ),
    Clause(
        "POOL-27",
        "Pools, what else carves its buffers, adaptors, system memory, and resources over the program's functions "
        "know each buffer that is out. What is none is refused with ValueError before anything is changed: an address "
        "that was never given, one inside a buffer, memory of others, a wrong size, a second free.",
        "resources that know their buffers",
    ),
    Clause(
        "POOL-28",
        "Memory may be given back on any stream of its device; a stream of another device is refused with ValueError, "
        "and nothing is taken or given back.",
        "pools",
    ),
    Clause(
        "POOL-29",
        "A captured stream takes from a pool what the pool has for it, and gives it back; the capture stays valid.",
        "pools of memory that devices alone reach",
    ),
    Clause(
        "POOL-30",
        "What a pool has not at hand for a captured stream is refused with ValueError before any runtime call, and the "
        "capture stays valid; other streams are served meanwhile.",
        "pools",
    ),
    Clause(
        "POOL-31",
        "In the child of a fork pools refuse every use as Forked, and in the parent they go on.",
        "pools",
    ),
    Clause(
        "POOL-32",
        "trim(keep) gives unused memory upstream until no more than keep is reserved beside what is in use; a size "
        "that is none is refused, and nothing changed.",
        "pools",
    ),
    Clause(
        "POOL-33",
        "Before memory goes upstream, by trim or by close, the work on it has run.",
        "pools",
    ),
    Clause(
        "POOL-34",
        "A pool may be trimmed while other threads allocate from it and free: no byte is lost.",
        "pools",
    ),
    Clause(
        "POOL-35",
        "Filled to 95 % of its limit, freed in pieces, run out of memory and freed at last, a pool reserves nothing "
        "more; its refusal says what was asked for, what is cached and the largest free block. On the CPU runtime the "
        "same with a full device leaves no more than 2 MiB of it taken.",
        "pools",
    ),
    Clause(
        "POOL-36",
        "Running out of memory and recovering a thousand times leaves a pool as once did.",
        "pools",
    ),
    Clause(
        "POOL-37",
        "A pool with a limit never reserves more, and serves what fits into it, to the byte: it makes room out of what "
        "is free, cuts no small block from a large one while the limit has another place for it, and else refuses with "
        "OutOfMemoryError that names the limit. What is no limit is refused.",
        "pools",
    ),
    Clause(
        "POOL-38",
        "The figures of a pool fit each other and what is out: used, reserved, peak, largest_free, free_blocks, "
        "fragmentation, hits and misses; reset_peak takes the peak to what is current.",
        "pools",
    ),
    Clause(
        "POOL-39",
        "snapshot() tells every chunk and every block, used or free, without gap or overlap, in sums that stats has "
        "too, as data that JSON can carry.",
        "pools",
    ),
    Clause(
        "POOL-40",
        "A release policy, the user's or a share of the peak, is asked whenever a buffer of more than 64 MiB comes "
        "back, if not before, and obeyed: what is beyond it goes back, and what work still uses goes when that has "
        "run, without another call. What is no policy is refused.",
        "pools",
    ),
    Clause(
        "POOL-41",
        "A pool that is made without host access refuses the host, and a stream gets what it freed on it again at "
        "once, also over memory that the host reaches.",
    ),
    Clause(
        "POOL-42",
        "With PORTAMEM_POOL=off every pool, the default too, passes through: each buffer is one of the resource "
        "below, of its size, and is back there when it is freed. Wrong frees, limits and captures are refused as "
        "ever.",
        "pools",
    ),
    Clause(
        "POOL-43",
        "PORTAMEM_POOL_LIMIT in bytes is the limit of all pools of a device's memory together that a process made "
        "without one, the default among them: what one gives back is another's to take. Other pools are as they were.",
    ),
    Clause(
        "POOL-44",
        "PORTAMEM_POOL_LIMIT as a percentage is that share of the device, divided by the processes that have such "
        "pools there: it gets less when another comes, for pools that exist too, and more when that ends. A pool that "
        "has more than is left to it then gives back what is free, when more comes back to it.",
    ),
    Clause(
        "POOL-45",
        "Settings of pools that cannot be read are a ValueError that names them, where a pool is made or the default "
        "is first asked for; they are never left out in silence.",
    ),
    Clause(
        "POOL-46",
        "A pool at its limit gives what one stream has freed to another, which begins behind the work on it: the host "
        "waits for none of that.",
        "pools of memory that devices alone reach",
    ),
    Clause(
        "POOL-47",
        "What a thread has freed on its own default stream serves others when the thread has ended, behind its last "
        "work there.",
        "pools",
    ),
    Clause(
        "POOL-48",
        "Before a pool says that its upstream has no memory, or a resource that asks the runtime each time says that "
        "the device has none, what other pools of that device's memory, or of host memory, keep idle goes back, where "
        "its last use has run, and what is out stays. A pool that is made with shares_idle=False keeps its own.",
        "pools",
    ),
    Clause(
        "POOL-49",
        "A pool whose last reference is gone gives all its memory back, behind the work that used it. Where a capture "
        "forbids the pool to wait for that work, the memory goes back when the capture has ended.",
        "pools",
    ),
    Clause(
        "POOL-50",
        "A living pool's limit can be changed, to bytes, to a share of the device's memory, or to none, and holds from "
        "the next chunk on. A limit below what is reserved takes nothing away; trim(limit) gives back what is not out.",
        "pools",
    ),
    Clause(
        "POOL-51",
        "A pool with an initial size has reserved that much when it is made, in bytes or as a share of the device's "
        "memory, and the first memory of that size costs no chunk, on whichever stream. A size that cannot be had, or "
        "that is above the limit, is refused, and nothing stays reserved.",
        "pools",
    ),
    Clause(
        "POOL-52",
        "trim(stream=) waits for the work of one stream, and for no other, and then gives unused memory upstream; what "
        "is free on another stream stays where its work has not run.",
        "pools",
    ),
    Clause(
        "POOL-53",
        "Memory that a pool keeps is found by no address: where a freed block begins a chunk, the upstream's memory at "
        "that address is the pool's, and no second free by the address reaches it.",
        "pools",
    ),
    Clause(
        "POOL-54",
        "Memory that a pool reallocates keeps its address where there is room behind it: free memory of its own "
        "stream, or of none. Another stream's is no room, and memory that another stream was told of moves.",
        "pools",
    ),
)
