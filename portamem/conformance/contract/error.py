# SPDX-License-Identifier: MIT
"""Errors and recovery."""

from __future__ import annotations

from portamem.conformance.contract.alloc import POOL_EXHAUSTION_UNSEEN
from portamem.conformance.contract.clause import Clause, Defect, Shortfall
from portamem.conformance.contract.pool import THRESHOLD_IGNORED

_LAST_ERROR_STAYS = Shortfall(
    "both",
    "the last error of a thread stays until any call reads it; before HIP 7 each success hides it",
    "bridged",
    "CUDA runtime API, GetLastError; ROCm documentation, HIP 7.0 changes, hipGetLastError",
)

CLAUSES = (
    Clause(
        "ERROR-01",
        "What the runtime refuses is portamem.Error, a RuntimeError, whose backend, call, code and name say who "
        "refused what; its text holds all four.",
    ),
    Clause(
        "ERROR-02",
        "name is portamem's own word, the same on every backend: InvalidValue for memory that cannot be freed, "
        "OutOfMemory, NotReady, whatever the vendor calls them; code is the runtime's number.",
        shortfalls=(
            Shortfall(
                "both",
                "one error has two names: MemoryAllocation and OutOfMemory, and others that only one vendor knows",
                "bridged",
                "driver_types.h of CUDA and hip_runtime_api.h: Error_t",
            ),
        ),
    ),
    Clause(
        "ERROR-03",
        "Where there is no memory, OutOfMemoryError is raised: as itself, as portamem.Error and as MemoryError.",
        "resources of any size",
        shortfalls=(POOL_EXHAUSTION_UNSEEN,),
    ),
    Clause(
        "ERROR-04",
        "OutOfMemoryError knows what was asked and, as far as it can be known, what is free, in use by portamem, "
        "cached in the resource and used by others; the text says so, and what would help. What pools keep, and no "
        "buffer has out, is not in use: the text says how much it is, and that trim() gives it back.",
        defects=(THRESHOLD_IGNORED,),
    ),
    Clause(
        "ERROR-05",
        "After a refused allocation the counters are as before, live memory is untouched, and the next allocation "
        "works.",
        "resources of any size",
        shortfalls=(
            Shortfall(
                "amd",
                "pools of ROCm 6.3 fail for cached blocks of other sizes where plain memory would fit",
                "allowed",
                "https://github.com/ROCm/hip/issues/3775",
            ),
        ),
        defects=(
            Defect(
                "amd",
                "an allocation from a pool that fails keeps the memory that it has committed",
                "https://github.com/ROCm/rocm-systems/issues/11642",
                "seen in 7.2.4 and in a nightly build of 10.1; first version unknown; the fix "
                "(ROCm/rocm-systems#11643) is in no release",
                ("error.after_more_than_is_free_of_a_pool",),
                since=(7, 2),
            ),
        ),
    ),
    Clause(
        "ERROR-06",
        "An error that was raised never shows again: later calls succeed.",
        shortfalls=(_LAST_ERROR_STAYS,),
    ),
    Clause(
        "ERROR-07",
        "Misuse is ValueError, TypeError or BufferError, never portamem.Error, and changes nothing: the object works "
        "as before.",
        "every resource",
    ),
    Clause(
        "ERROR-08",
        "Misuse that can be seen without the runtime is refused before any of its calls.",
        backends=("host",),
    ),
    Clause(
        "ERROR-09",
        "Errors survive pickling and copying with all they know.",
    ),
    Clause(
        "ERROR-10",
        "Whatever call of the runtime fails, in any operation: an exception with that call's code is raised or the "
        "operation works without it, nothing leaks, and the same operation works afterwards.",
        backends=("host",),
    ),
    Clause(
        "ERROR-11",
        "An error names the call that failed, and an n-th failure leaves what was made before it usable.",
        backends=("host",),
    ),
    Clause(
        "ERROR-12",
        "Memory whose free failed stays usable and can be closed again; what was forgotten is tried again and goes "
        "back.",
        "memory of the runtime",
        backends=("host",),
    ),
    Clause(
        "ERROR-13",
        "An exception in a with block arrives as it is, also where closing fails at its end.",
        backends=("host",),
    ),
    Clause(
        "ERROR-14",
        "Whatever call of the runtime fails under resources that stand over others: an exception with that call's code "
        "is raised or the operation works without it, nothing leaks, the counters are right, no memory is out twice, "
        "and the next allocation works.",
        backends=("host",),
    ),
    Clause(
        "ERROR-15",
        "After a call that was refused, and after the answer that something is not ready, the runtime's own last error "
        "is clean.",
        # CUDA's runtime is linked into the module: no Python program can ask that copy of it for its last error.
        backends=("hip", "host"),
        shortfalls=(_LAST_ERROR_STAYS,),
    ),
)
