# SPDX-License-Identifier: MIT
"""Pointer queries."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall
from portamem.conformance.contract.pinned import REGISTRATION_UNTOLD

NULL_REFUSED = Shortfall(
    "amd",
    "before HIP 7.0 hipPointerGetAttributes refuses null with InvalidValue",
    "bridged",
    "ROCm documentation, HIP 7.0 changes, hipPointerGetAttributes",
)

CLAUSES = (
    Clause(
        "POINTER-01",
        "pointer_info tells what memory is: device, host (pinned) or managed, with the ordinal of the device that owns "
        "it, and the addresses by which device and host reach it.",
        "memory of the runtime",
        shortfalls=(
            Shortfall(
                "amd",
                "before ROCm 6.0 the kinds have other numbers, and page-locked memory looks like CUDA's unregistered",
                "bridged",
                "hip_runtime_api.h 5.2 to 6.0 (hipMemoryType); hypre-space/hypre#1143",
            ),
        ),
    ),
    Clause(
        "POINTER-02",
        "An address inside an allocation is told like its start; where the runtime knows the allocation, base and "
        "nbytes are those of all of it, and of virtual memory those of the piece that is mapped there.",
        "memory of the runtime",
    ),
    Clause(
        "POINTER-03",
        "Buffers, sub-views and Views are told like their address, and closed ones raise ValueError.",
        "every resource of the runtime",
    ),
    Clause(
        "POINTER-04",
        "Memory that was given back is unregistered.",
        "plain memory of the runtime",
    ),
    Clause(
        "POINTER-05",
        "Plain host memory, of Python objects or of the system resource, is an answer and no error: unregistered, "
        "without device, base, size or flags, and with a device address exactly where pageable_memory_access says so.",
        "system memory",
        shortfalls=(
            Shortfall(
                "amd",
                "before ROCm 6.0 the query fails with InvalidValue",
                "bridged",
                "ROCm/HIP#3057; cupy/cupy#8335; pytorch/pytorch#192056",
            ),
        ),
    ),
    Clause(
        "POINTER-06",
        "The null address is unregistered and has no addresses.",
        shortfalls=(NULL_REFUSED,),
    ),
    Clause(
        "POINTER-07",
        "What is not an address is refused: ValueError for a negative number and one beyond any address, TypeError for "
        "what is no int.",
    ),
    Clause(
        "POINTER-08",
        "Registered memory is host memory with a device address while it is registered, and unregistered afterwards.",
        shortfalls=(REGISTRATION_UNTOLD,),
    ),
    Clause(
        "POINTER-09",
        "The vendor's own call says the same of every address: kind, device and both addresses.",
        "every resource of the runtime",
    ),
    Clause(
        "POINTER-10",
        "Whether memory can go to another process by a legacy handle is True, False, or None where the runtime does "
        "not say; never True for memory of a pool, of the system, or that no resource owns.",
        "every resource of the runtime",
    ),
    Clause(
        "POINTER-11",
        "pointer_info of an address at which memory of a resource is out also tells the resource, the address and the "
        "bytes that were asked for; for memory of a pool so does every address inside of it. Of memory that was freed "
        "it tells none of them.",
        "every resource",
    ),
)
