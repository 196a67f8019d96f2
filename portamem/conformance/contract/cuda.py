# SPDX-License-Identifier: MIT
"""Clauses that only CUDA has."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

_CUDA = ("cuda",)

CLAUSES = (
    Clause(
        "CUDA-01",
        "The module brings its CUDA runtime with it: importing it opens no libcudart, and no libcuda, which a machine "
        "without a driver does not have.",
        backends=_CUDA,
    ),
    Clause(
        "CUDA-02",
        "Counting devices, naming them, their uuids, capabilities and quirks create no context.",
        backends=_CUDA,
    ),
    Clause(
        "CUDA-03",
        "Memory and work live in the device's primary context, and portamem creates no other.",
        backends=_CUDA,
        shortfalls=(
            Shortfall(
                "nvidia",
                "from CUDA 12 on, making a device current creates its context at once",
                "bridged",
                "CUDA runtime API, cudaSetDevice",
            ),
        ),
    ),
    Clause(
        "CUDA-04",
        "A thread without a context has none after calls of portamem, and one with a context keeps its own.",
        backends=_CUDA,
    ),
    Clause(
        "CUDA-05",
        "uuid, name and PCI address are the driver's: under MIG those of the slice.",
        backends=_CUDA,
    ),
    Clause(
        "CUDA-06",
        "ipc_capable of a pointer is what cudaIpcGetMemHandle then does: plain device memory has a handle, memory of "
        "pools and managed memory are refused one.",
        backends=_CUDA,
        shortfalls=(
            Shortfall(
                "nvidia",
                "memory of pools has no legacy handle",
                "allowed",
                "openucx/ucx#7110; ofiwg/libfabric#10162",
            ),
        ),
    ),
    Clause(
        "CUDA-07",
        "Pinned memory is coherent even where non-coherent memory is asked for: there is no other kind, and "
        "pinned_non_coherent says so.",
        backends=_CUDA,
    ),
    Clause(
        "CUDA-08",
        "What CUDA has no word for is told as unknown, or refused with NotSupported: direct host access, XNACK, "
        "fine-grained and uncached device memory, the coherency mode of a range.",
        backends=_CUDA,
    ),
    Clause(
        "CUDA-09",
        "malloc_heap_size is a limit here, and says so.",
        backends=_CUDA,
    ),
)
