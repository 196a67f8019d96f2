# SPDX-License-Identifier: MIT
"""Freeing, and frees that are wrong."""

from __future__ import annotations

from portamem.conformance.contract.alloc import FREE_ASYNC_NULL_REFUSED
from portamem.conformance.contract.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "FREE-01",
        "Closing a buffer gives its memory back once: closing again does nothing, and the buffer says that it is "
        "closed.",
        "every resource",
    ),
    Clause(
        "FREE-02",
        "Memory goes back also when a with block ends, with an exception or without, and when the last "
        "holder drops the buffer.",
        "every resource",
    ),
    Clause(
        "FREE-03",
        "Every use of a closed buffer raises ValueError (BufferError from the buffer protocol) that says so, and "
        "touches no memory.",
        "every resource",
    ),
    Clause(
        "FREE-04",
        "Freeing an address that the runtime never gave, or one inside an allocation, raises InvalidValue; the "
        "counters and all live memory stay as they were.",
        "memory whose frees the runtime judges",
    ),
    Clause(
        "FREE-05",
        "Freeing memory a second time raises InvalidValue and changes nothing.",
        "plain memory whose frees the runtime judges",
    ),
    Clause(
        "FREE-06",
        "Memory is freed as what it is: pinned memory given back as device memory, or device memory as pinned, raises "
        "InvalidValue and stays usable.",
        backends=("cuda", "host"),
        shortfalls=(
            Shortfall(
                "amd",
                "hipFree takes memory of hipHostMalloc, and hipHostFree that of hipMalloc: not bound there",
                "allowed",
                "ROCm/clr hipamd/src/hip_memory.cpp, hipFree and hipHostFree (both ihipFree)",
            ),
            Shortfall(
                "nvidia",
                "cudaFreeAsync takes memory of cudaMalloc, which CUDA does not promise, and cudaFree that of "
                "cudaMallocAsync",
                "allowed",
                "cuda_runtime_api.h, cudaFree: names cudaMallocAsync; measured on an H200, CUDA 13.0",
            ),
        ),
    ),
    Clause(
        "FREE-07",
        "What cannot be a resource's own is refused before the runtime is asked: ValueError for memory while nothing "
        "is out, and for more bytes than are out. A null address is nothing, and frees no buffer that has bytes.",
        "every resource",
        shortfalls=(FREE_ASYNC_NULL_REFUSED,),
    ),
    Clause(
        "FREE-08",
        "release() gives up a buffer and answers its address; the memory stays out with its contents until the "
        "resource's deallocate takes it back.",
        "every resource",
    ),
    Clause(
        "FREE-09",
        "close() of memory without stream order returns when the work declared on it has run, and not before: no "
        "vendor promises that its free waits.",
        "resources without stream order that keep nothing",
        shortfalls=(
            Shortfall(
                "both",
                "cudaFree only may synchronize; hipFree does not for memory of pools from ROCm 7.0",
                "bridged",
                "cuda_runtime_api.h, cudaFree; ROCm/clr hipamd/src/hip_memory.cpp, ihipFree; "
                "ROCm documentation, HIP 7.0 changes, hipFree",
            ),
        ),
    ),
    Clause(
        "FREE-10",
        "Memory closed on a stream goes back behind the work on that stream, on the stream of its allocation and on "
        "every stream that was declared: no allocation gets it before.",
        "every resource",
    ),
    Clause(
        "FREE-11",
        "Memory goes back to the device that gave it, whatever device is current, and the current device stays.",
        "every resource",
    ),
    Clause(
        "FREE-12",
        "A buffer may be closed or dropped by any thread; closed by two at once it goes back once.",
        "every resource",
    ),
    Clause(
        "FREE-13",
        "A close that is refused, by the runtime or because a capture is in the way, leaves the buffer as open and "
        "usable as before, and a later one succeeds.",
        "every resource",
    ),
    Clause(
        "FREE-14",
        "Memory that is dropped while it cannot go back is not lost: it goes back when it can.",
        "every resource",
    ),
    Clause(
        "FREE-15",
        "With PORTAMEM_DEBUG=1 fresh memory holds 0xA5 in every byte, and a write beside a buffer, before or behind "
        "it, is an Error named Corrupted where the buffer is closed, which says the side, the bytes and the size; "
        "closing again gives the memory back. What stays inside is as without it.",
    ),
    Clause(
        "FREE-16",
        "With PORTAMEM_DEBUG=1 a second free is a ValueError that says what the memory was and that it is freed twice, "
        "however much was allocated and freed at its address before.",
    ),
    Clause(
        "FREE-17",
        "With PORTAMEM_DEBUG=1 a write beside memory that is still out when the process ends is said on standard "
        "error, for each such memory that can be read.",
    ),
    Clause(
        "FREE-18",
        "A size is given back as it was asked for. Another raises ValueError that asks for the right one, and nothing "
        "has changed.",
        "every resource",
    ),
    Clause(
        "FREE-19",
        "A resource says how many bytes were asked for at an address that is out, and takes the memory back by the "
        "address alone. Of any other address it says nothing, and a free of it is refused, with all as it was.",
        "every resource",
    ),
    Clause(
        "FREE-20",
        "resource_of and size_of find the resource that has memory out at an address (of resources that stand over one "
        "another, the one that the program called) and the bytes that were asked for, whichever thread allocated it. "
        "Of an address inside of the memory, or whose memory was freed, they say nothing. deallocate takes the "
        "memory back by its address alone, and refuses every other address.",
        "every resource",
    ),
)
