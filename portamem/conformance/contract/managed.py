# SPDX-License-Identifier: MIT
"""Managed and system memory."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Defect, Shortfall

PREFETCH_MAY_WAIT = Defect(
    "amd",
    "hipMemPrefetchAsync may wait for the stream",
    "https://github.com/ROCm/clr/blob/rocm-6.3.3/rocclr/device/rocm/rocvirtual.cpp",
    "read in the source of 6.3, VirtualGPU::submitSvmPrefetchAsync; no thread is known. First version unknown; that of "
    "10.0 does not wait, and which of 7 do is unknown",
    ("managed.a_prefetch_has_its_place_in_the_stream", "order.a_prefetch_is_in_stream_order"),
    until=(10, 0),
)

_IGNORED_WITHOUT_MIGRATION = Shortfall(
    "amd",
    "where managed memory does not migrate, prefetch and advice succeed and are ignored",
    "capability",
    "ROCm/clr hipamd/src/hip_hmm.cpp: a warning in the log only",
)

_PAGEABLE_OUT_OF_REACH = (
    Shortfall(
        "nvidia",
        "a device reaches ordinary memory of the host only where kernel, driver and machine give it that (HMM, ATS)",
        "capability",
        "CUDA runtime API, cudaDevAttrPageableMemoryAccess",
    ),
    Shortfall(
        "amd",
        "a device reaches ordinary memory of the host only with XNACK",
        "capability",
        "hip_runtime_api.h, hipDeviceAttributePageableMemoryAccess; HIP documentation, unified memory management",
    ),
)

CLAUSES = (
    Clause(
        "MANAGED-01",
        "Managed memory has one address for host and device: each reads there what the other has written.",
        "managed memory",
    ),
    Clause(
        "MANAGED-02",
        "A buffer and its resource say that host or device reach the memory exactly where they do: a memoryview shows "
        "the bytes, or BufferError says that it cannot.",
        "every resource of the runtime",
        shortfalls=(
            Shortfall(
                "nvidia",
                "CUDA does not say whether the host reaches plain device memory",
                "allowed",
                "CUDA runtime API, cudaDeviceAttr: an attribute for managed memory only",
            ),
        ),
    ),
    Clause(
        "MANAGED-03",
        "A prefetch to the device, by object or ordinal, or to the host changes no byte.",
        "managed memory",
    ),
    Clause(
        "MANAGED-04",
        "A prefetch on a stream comes behind what the stream was given before: its event is not done earlier. Without "
        "a stream it is done on return.",
        "managed memory",
        defects=(PREFETCH_MAY_WAIT,),
    ),
    Clause(
        "MANAGED-05",
        "Where managed memory migrates, range_attribute tells the last location that it was prefetched to.",
        shortfalls=(_IGNORED_WITHOUT_MIGRATION,),
    ),
    Clause(
        "MANAGED-06",
        "Where managed memory migrates, advice to be read mostly is there until it is undone.",
        shortfalls=(_IGNORED_WITHOUT_MIGRATION,),
    ),
    Clause(
        "MANAGED-07",
        "Where managed memory migrates, a preferred location is there until another is named or it is undone.",
        shortfalls=(_IGNORED_WITHOUT_MIGRATION,),
    ),
    Clause(
        "MANAGED-08",
        "Where managed memory migrates, the list of devices that access it has those that were named and not undone.",
        shortfalls=(_IGNORED_WITHOUT_MIGRATION,),
    ),
    Clause(
        "MANAGED-09",
        "Advice and prefetches of a part leave the rest alone: an attribute is told of a range only where all of it "
        "shares that.",
        shortfalls=(_IGNORED_WITHOUT_MIGRATION,),
    ),
    Clause(
        "MANAGED-10",
        "Advice and its undoing change no byte, whether the memory migrates or not.",
        "managed memory",
    ),
    Clause(
        "MANAGED-11",
        "A location is a device, an ordinal or the host, a NUMA node of it included. Any other, and advice and "
        "attributes that do not exist, are refused with ValueError or TypeError that name what there is.",
    ),
    Clause(
        "MANAGED-12",
        "Prefetch, advice and range attributes of memory that is neither managed nor system memory which the device "
        "reaches are refused with ValueError, and the memory is as usable as before.",
        shortfalls=(
            Shortfall(
                "amd",
                "hipMemPrefetchAsync takes device memory, and to the host any; to a device, unknown memory is "
                "NotSupported",
                "bridged",
                "ROCm/clr hipamd/src/hip_hmm.cpp, ihipMemPrefetchAsync",
            ),
        ),
    ),
    Clause(
        "MANAGED-13",
        "Advice that a vendor does not have is refused with NotSupported, never ignored.",
        shortfalls=(
            Shortfall(
                "both",
                "advice on coarse grain is AMD's alone",
                "allowed",
                "hip_runtime_api.h, hipMemAdviseSetCoarseGrain",
            ),
        ),
    ),
    Clause(
        "MANAGED-14",
        "Prefetch and advice of 0 bytes succeed.",
        shortfalls=(
            Shortfall(
                "amd",
                "hipMemPrefetchAsync refuses 0 bytes with InvalidValue",
                "bridged",
                "ROCm/clr hipamd/src/hip_hmm.cpp, ihipMemPrefetchAsync",
            ),
        ),
    ),
    Clause(
        "MANAGED-15",
        "Memory attached to the host, or to all, serves host and device alike; another attachment is refused with "
        "ValueError.",
    ),
    Clause(
        "MANAGED-16",
        "With concurrent_managed_access the host reads and writes managed memory while the device is busy with "
        "something else.",
    ),
    Clause(
        "MANAGED-17",
        "System memory is ordinary host memory in pages of its own: the runtime does not know it, the host reaches "
        "it, and it is an end of copies to every device.",
        "system memory",
    ),
    Clause(
        "MANAGED-18",
        "Where pageable_memory_access is true the device reads and writes system memory and any other memory of the "
        "process in place, else their addresses do not exist for it.",
        shortfalls=_PAGEABLE_OUT_OF_REACH,
    ),
    Clause(
        "MANAGED-19",
        "What a device reaches with pageable_memory_access includes memory that grows, moves and goes away by the C "
        "library's hand: new contents at an address are what the device then sees.",
        shortfalls=_PAGEABLE_OUT_OF_REACH,
    ),
    Clause(
        "MANAGED-20",
        "Managed memory can be used on every device, whichever device its resource is of.",
        "managed memory",
    ),
    Clause(
        "MANAGED-21",
        "Where pageable_memory_access is true, system memory is prefetched and advised on like managed memory, and no "
        "byte changes; what the runtime refuses of it is raised, never ignored.",
        "system memory",
        shortfalls=_PAGEABLE_OUT_OF_REACH,
    ),
    Clause(
        "MANAGED-22",
        "Within a block of `Buffer.preferred` the pages are preferred at its location; afterwards the preference of "
        "the whole is what it was, also where the block ends by an exception. Nothing changes where the location is "
        "refused.",
        "managed memory",
        shortfalls=(_IGNORED_WITHOUT_MIGRATION,),
    ),
    Clause(
        "MANAGED-23",
        "recommend names a kind of memory that serves on the device, and says why. For bytes that host and kernels "
        "share, the host reaches it; it recommends managed memory only where its pages move.",
    ),
)
