# SPDX-License-Identifier: MIT
"""Access by the host."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "HOSTACCESS-01",
        "is_host_accessible is the truth: where it is set Python reads and writes the memory in place, and where it is "
        "not, every reader (memoryview, bytes, NumPy) gets BufferError that says to copy, and never the memory.",
        "every resource",
    ),
    Clause(
        "HOSTACCESS-02",
        "The host reaches pinned, managed and system memory on every device.",
        "host-accessible memory",
    ),
    Clause(
        "HOSTACCESS-03",
        "The host reaches plain device memory exactly where the device's direct_host_access says so, and never memory "
        "of a pool, which is reused in an order that the host does not follow.",
        "device memory",
        shortfalls=(
            Shortfall(
                "nvidia",
                "the runtime does not say whether the host reaches device memory: taken for no",
                "allowed",
                "driver_types.h, cudaDeviceAttr: an attribute for managed memory, none for device memory",
            ),
        ),
    ),
    Clause(
        "HOSTACCESS-04",
        "Devices reach pinned and managed memory, and system memory exactly where pageable_memory_access says so.",
        "host-accessible memory",
    ),
    Clause(
        "HOSTACCESS-05",
        "Taking a Python buffer waits for all work declared on the memory. From then on the caller orders host access: "
        "work queued later is not waited for.",
        "host-accessible memory",
        shortfalls=(
            Shortfall(
                "both",
                "the host may not touch managed memory while the device works, without concurrent managed access",
                "capability",
                "CUDA C++ Programming Guide, unified memory on devices without full support",
            ),
        ),
    ),
    Clause(
        "HOSTACCESS-06",
        "Reading __array_interface__, and giving a View to NumPy, waits for all work declared on the memory.",
        "host-accessible memory",
    ),
    Clause(
        "HOSTACCESS-07",
        "Host access is not stream-ordered: memory that the host reaches is handed out again only when all work "
        "declared on it has run, so that the next owner disturbs nothing by writing to it at once.",
        "host-accessible memory",
    ),
    Clause(
        "HOSTACCESS-08",
        "What the host writes in place before it submits work is what that work sees, and what that work writes the "
        "host sees when it is done.",
        "host-accessible memory",
    ),
    Clause(
        "HOSTACCESS-09",
        "On a machine whose host reaches device memory (an APU, a coherent node), what is written on either side is "
        "seen on the other once the device is done.",
        "plain device memory",
        shortfalls=(
            Shortfall(
                "nvidia",
                "the runtime does not say whether the host reaches device memory: taken for no",
                "capability",
                "driver_types.h, cudaDeviceAttr: an attribute for managed memory, none for device memory",
            ),
            Shortfall(
                "amd",
                "the host reaches device memory only over a large BAR",
                "capability",
                "hip_runtime_api.h, hipDeviceAttributeIsLargeBar",
            ),
        ),
    ),
)
