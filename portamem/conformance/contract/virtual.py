# SPDX-License-Identifier: MIT
"""Memory that is mapped to reserved addresses."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

_WITHOUT = (
    Shortfall(
        "both",
        "a device, or its driver, has no virtual memory; HIP before 5.7 does not tell",
        "capability",
        "CUDA driver API, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED; hip_runtime_api.h, "
        "hipDeviceAttributeVirtualMemoryManagementSupported",
    ),
)

CLAUSES = (
    Clause(
        "VIRTUAL-01",
        "A GrowableBuffer gets any size from one byte to its capacity by resize: its address stays, and so do its "
        "first bytes, as many as both sizes have. The resource counts the size that the buffer has.",
        "virtual memory",
        shortfalls=(
            *_WITHOUT,
            Shortfall(
                "amd",
                "access to mapped memory that does not begin with its reservation is refused",
                "bridged",
                "ROCm/rocm-systems#2516",
            ),
        ),
    ),
    Clause(
        "VIRTUAL-02",
        "Views and other exports stay valid while a GrowableBuffer grows, and keep it from shrinking (BufferError).",
        "virtual memory",
        shortfalls=_WITHOUT,
    ),
    Clause(
        "VIRTUAL-03",
        "A GrowableBuffer that gets fewer bytes waits for the work that was declared on it. Its memory goes back to "
        "the device in whole pieces, and `mapped` tells what it takes.",
        "virtual memory",
        shortfalls=_WITHOUT,
    ),
    Clause(
        "VIRTUAL-04",
        "A size of 0 bytes or past the capacity is ValueError, and one that the device has no memory for is "
        "OutOfMemoryError: the GrowableBuffer has its old size and bytes then, and holds no more memory than before.",
        "virtual memory",
        shortfalls=_WITHOUT,
    ),
    Clause(
        "VIRTUAL-05",
        "While a VirtualMemoryResource sleeps, its blocks take no memory of the device and keep their addresses: each "
        "use of their Buffers is ValueError, and closing them is allowed. wake gives them memory again, with the bytes "
        "that they had, or with others where sleep was told to drop them. Of a pool's chunk the host keeps the "
        "pieces that Buffers have out.",
        "virtual memory",
        shortfalls=_WITHOUT,
    ),
    Clause(
        "VIRTUAL-06",
        "Buffer.reallocate keeps the address of a block while its addresses suffice (`reserve`), and moves it then.",
        "virtual memory",
        shortfalls=_WITHOUT,
    ),
    Clause(
        "VIRTUAL-07",
        "Virtual memory is open to another device only after set_access, which access tells and 'none' takes back: "
        "then copies between the two devices carry the bytes, of blocks that are out, that come, grow or wake later, "
        "and of a pool over them. Without, a refused copy names set_access; ValueError refuses less for its own "
        "device, and a device that cannot reach it.",
        "virtual memory",
        shortfalls=_WITHOUT,
    ),
)
