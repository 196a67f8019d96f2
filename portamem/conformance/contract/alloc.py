# SPDX-License-Identifier: MIT
"""Allocation, alignment and zero sizes."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

_ASYNC_ZERO_REFUSED = Shortfall(
    "amd",
    "before ROCm 5.6 hipMallocAsync refuses 0 bytes with InvalidValue",
    "bridged",
    "ROCm 5.6 release notes, hipMallocAsync; alpaka-group/alpaka#2197",
)

FREE_ASYNC_NULL_REFUSED = Shortfall(
    "amd",
    "before HIP 7.0 hipFreeAsync refuses null with InvalidValue",
    "bridged",
    "ROCm/clr hipamd/src/hip_mempool.cpp, hipFreeAsync; ROCm documentation, HIP 7.0 changes, hipFreeAsync",
)

_MANAGED_ZERO_REFUSED = Shortfall(
    "amd",
    "hipMallocManaged refuses 0 bytes with InvalidValue",
    "bridged",
    "ROCm/clr hipamd/src/hip_hmm.cpp, hipMallocManaged (ROCm 5.6 to 7.x)",
)

TINY_FROM_POOLS = Shortfall(
    "amd",
    "stream-ordered allocations of less than 8 bytes fail or hang in 5.7",
    "bridged",
    "ROCm/HIP#3370",
)

POOL_EXHAUSTION_UNSEEN = Shortfall(
    "amd",
    "in some versions hipMallocFromPoolAsync answers Success with a null pointer where there is no memory",
    "bridged",
    "ROCm/clr commit 04b696abee92, hipamd/src/hip_mempool.cpp, hipMallocFromPoolAsync; JuliaGPU/AMDGPU.jl#901",
)

CLAUSES = (
    Clause(
        "ALLOC-01",
        "A buffer has exactly the bytes that were asked for, all of them can be written and read back, and they keep "
        "what was written.",
        "every resource",
        shortfalls=(TINY_FROM_POOLS,),
    ),
    Clause(
        "ALLOC-02",
        "Live buffers never overlap, also not with those of another resource.",
        "every resource",
    ),
    Clause(
        "ALLOC-03",
        "An allocation of 0 bytes succeeds, has the address 0, and copies, fills and closes like any other.",
        "every resource",
        shortfalls=(_ASYNC_ZERO_REFUSED, FREE_ASYNC_NULL_REFUSED, _MANAGED_ZERO_REFUSED),
    ),
    Clause(
        "ALLOC-04",
        "Every allocation starts at an address that is a multiple of 256, whatever its size and its kind of memory.",
        "every resource",
    ),
    Clause(
        "ALLOC-05",
        "System memory starts on a page: at a multiple of 4096.",
        "system memory",
    ),
    Clause(
        "ALLOC-06",
        "Filling or copying all of a buffer changes no byte of the buffers around it.",
        "every resource",
    ),
    Clause(
        "ALLOC-07",
        "A resource counts the buffers that are out and their bytes, as asked for, and portamem.held counts those "
        "bytes for the device, or for the host where the memory is the host's.",
        "every resource",
    ),
    Clause(
        "ALLOC-08",
        "A buffer says what it is: its backend, kind, device, device_id (-1 for host memory), resource, stream, and "
        "who can reach it, all as its resource does.",
        "every resource",
    ),
    Clause(
        "ALLOC-09",
        "A size is any int, or text with a unit of 1000s or 1024s such as '64 MiB'; the buffer has exactly that size.",
    ),
    Clause(
        "ALLOC-10",
        "What is no size is refused before the runtime is asked: TypeError for a wrong type and for a bool, ValueError "
        "for a negative number, for text that is no size, and for what is beyond any address.",
    ),
    Clause(
        "ALLOC-11",
        "More than there is raises OutOfMemoryError, which is a MemoryError and has the size asked for; no buffer is "
        "counted, what is live keeps its contents, and the next allocation that fits succeeds.",
        "resources of any size",
        shortfalls=(POOL_EXHAUSTION_UNSEEN,),
    ),
    Clause(
        "ALLOC-12",
        "OutOfMemoryError says where the memory is: asked, held by portamem, free, used by others, cached in the "
        "resource, and what would help.",
        "device memory",
    ),
    Clause(
        "ALLOC-13",
        "A full device says OutOfMemory instead of lending memory twice, and what one buffer gives back the next one "
        "can have.",
        "device memory of the runtime",
        backends=("host",),
    ),
    Clause(
        "ALLOC-14",
        "A stream-ordered resource allocates on the stream that is named and on no other: without one it raises "
        "TypeError, for a stream of another device ValueError.",
        "stream-ordered resources",
    ),
    Clause(
        "ALLOC-15",
        "A resource without stream order gives memory that is there on return, for every stream.",
        "resources without stream order",
    ),
    Clause(
        "ALLOC-16",
        "A closed resource gives no memory: ValueError.",
        "every resource",
    ),
    Clause(
        "ALLOC-17",
        "Pitched memory has `height` rows, `pitch` bytes apart, each starting at a multiple of 256 and holding `width` "
        "bytes; its size is pitch times height, and the resource counts that.",
        "plain device memory",
        shortfalls=(
            Shortfall(
                "both",
                "the pitch is the vendor's choice (512 on NVIDIA, 256 on AMD)",
                "allowed",
                "ROCm/clr rocclr/device/rocm/rocdevice.cpp, imagePitchAlignment_; alpaka-group/alpaka#2566",
            ),
        ),
    ),
    Clause(
        "ALLOC-18",
        "Pitched memory without a row or without a width has the address 0 and 0 bytes; negative and uncountable sizes "
        "are refused with ValueError, half rows with TypeError, and too much with OutOfMemoryError.",
        "plain device memory",
    ),
    Clause(
        "ALLOC-19",
        "Where no resource is named, memory comes from the current resource of the device: the one of the innermost "
        "scope that this thread has opened on that device, else the device's default: a pool of its plain memory, one "
        "for the process, that the host keeps off and no call can close.",
    ),
    Clause(
        "ALLOC-20",
        "empty, zeros and asarray give typed memory of the shape and the resource asked for, in a stream's order with "
        "one; zeros are zero, and asarray holds what it was given. Without a stream it is ready for every stream: on "
        "return, or for empty by the time that its address is told.",
        "every resource",
    ),
    Clause(
        "ALLOC-21",
        "Arguments are taken as Python's own functions take them: `stream` by its name alone, and TypeError for those "
        "that are missing, too many, unknown or of a wrong type, with nothing allocated or freed.",
        "every resource",
    ),
    Clause(
        "ALLOC-22",
        "Memory that the default resource keeps for later does not count as held. Another resource that finds no "
        "memory on the device gets it, where that is enough; a refusal says how much it is, and what gives it back.",
        "device memory of the runtime",
    ),
    Clause(
        "ALLOC-23",
        "Memory is aligned as was asked for, also where it had been freed before: by all to 256 bytes, by pools to any "
        "power of two. Another alignment is a ValueError, and nothing is allocated.",
        "every resource",
    ),
)
