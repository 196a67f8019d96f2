# SPDX-License-Identifier: MIT
"""The device heap: memory that kernels allocate and free themselves."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

_GUIDE = "CUDA C++ Programming Guide, Dynamic Global Memory Allocation and Operations"

_INITIAL = Shortfall(
    "amd",
    "the limit is the first slab of a heap that grows: it bounds nothing, and setting it late may succeed",
    "capability",
    "ROCm/clr hipamd/src/hip_device_runtime.cpp, hipDeviceSetLimit (ROCm 5.5 to 7.x); ROCm/hip#3429",
)

CLAUSES = (
    Clause(
        "HEAP-01",
        "Device.malloc_heap_size is the runtime's own limit, by whatever call it was set. Where the heap's kind is "
        "limit, it is 8 MiB or more at first, and at least what was asked for once it was set, as long as no kernel "
        "uses the heap; HEAP-09 is about requests that come near the device's memory.",
        shortfalls=(_INITIAL,),
    ),
    Clause(
        "HEAP-02",
        "Where the heap's kind is limit, loading a kernel that uses the heap settles the limit: setting it raises "
        "Error InvalidValue from then on, and it stays what it was.",
        shortfalls=(_INITIAL,),
    ),
    Clause(
        "HEAP-03",
        "Every thread of a kernel can allocate: it gets memory aligned to 16 bytes that no other thread has, which "
        "keeps what is written, and can free it.",
    ),
    Clause(
        "HEAP-04",
        "One thread of a block can allocate for all of them, and another one can free.",
    ),
    Clause(
        "HEAP-05",
        "Memory of the heap outlives the kernel that allocated it: later kernels read and write it, and any thread of "
        "any of them frees it.",
    ),
    Clause(
        "HEAP-06",
        "memset and memcpy in kernels work on memory of the heap, and between it and plain device memory.",
    ),
    Clause(
        "HEAP-07",
        "A kernel's allocation that does not fit is NULL, and nothing else fails: what was allocated stays, the "
        "program goes on, and what kernels free can be had again.",
    ),
    Clause(
        "HEAP-08",
        "Where kernels can ask for an alignment beyond 16 bytes, the memory has it.",
        shortfalls=(
            Shortfall(
                "amd",
                "kernels have no aligned malloc",
                "capability",
                "ROCm's device library, ockl/src/dm.cl: __ockl_dm_alloc takes a size alone",
            ),
        ),
    ),
    Clause(
        "HEAP-09",
        "Where the heap's kind is limit, one that there is no memory for is refused with an error, when it is set or "
        "when a kernel that uses it is loaded, as on the CPU runtime; or malloc_heap_size is then what the runtime "
        "made of it: kernels get a quarter of that at least, and NULL before twice that. What is there keeps its "
        "bytes, and kernels and copies go on.",
        shortfalls=(_INITIAL,),
    ),
    Clause(
        "HEAP-10",
        "Addresses of the heap are for kernels alone: a buffer over one, and any copy, fill, free or registration of "
        "portamem that is given one, raises an exception, and the memory there is unharmed.",
        shortfalls=(
            Shortfall(
                "nvidia",
                "such addresses are forbidden to calls of the host, and no call promises to refuse them",
                "bridged",
                _GUIDE,
            ),
        ),
    ),
    Clause(
        "HEAP-11",
        "Each device has a heap of its own: settling one leaves the other's limit to be set.",
        shortfalls=(_INITIAL,),
    ),
)
