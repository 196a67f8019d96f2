# SPDX-License-Identifier: MIT
"""Allocation, alignment and zero sizes."""

from __future__ import annotations

from portamem.conformance.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "ALLOC-01",
        "A buffer has exactly the bytes that were asked for, all of them can be written and read back, and they keep "
        "what was written.",
        "every resource",
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
        shortfalls=(
            Shortfall(
                "amd",
                "hipMallocManaged refuses 0 bytes with InvalidValue",
                "bridged",
                "HIP runtime's source, hip_hmm.cpp (ROCm 5.6 to 7.x)",
            ),
        ),
    ),
)
