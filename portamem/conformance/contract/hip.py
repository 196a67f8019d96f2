# SPDX-License-Identifier: MIT
"""Clauses that only HIP has."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall
from portamem.conformance.contract.pointer import NULL_REFUSED

_HIP = ("hip",)

_NOT_ON_NVIDIAS = Shortfall(
    "nvidia",
    "on NVIDIA's devices HIP is a set of headers over CUDA's runtime, and the matter does not come up",
    "capability",
    "hip/nvidia_detail/nvidia_hip_runtime_api.h",
)

CLAUSES = (
    Clause(
        "HIP-01",
        "The module serves one major version of the HIP runtime, whose enumerations and records it was built with: the "
        "one that answers is of that version.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "memory types and records are numbered anew by major versions",
                "bridged",
                "hip_runtime_api.h of 5.2, 5.7, 6.0: hipMemoryType",
            ),
        ),
    ),
    Clause(
        "HIP-02",
        "Kinds of memory are told alike by every version of the runtime, whatever it numbers them: device, host, "
        "managed, and unregistered for what it does not know, null too.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "before 6.0 a plain host pointer is InvalidValue",
                "bridged",
                "ROCm/HIP#3057",
            ),
            NULL_REFUSED,
        ),
    ),
    Clause(
        "HIP-03",
        "On AMD's devices memory of a pool goes back on the stream that it came from, unless that is switched off.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "memory of a pool that was freed on another stream may be handed out while in use",
                "emulated",
                "ROCm/rocm-systems#10943; OpenNMT/CTranslate2#2090",
            ),
            _NOT_ON_NVIDIAS,
        ),
    ),
    Clause(
        "HIP-04",
        "A device's quirks are those of its architecture and of the version of its runtime: no other is told, none is "
        "left out.",
        backends=_HIP,
    ),
    Clause(
        "HIP-05",
        "AMD has a non-coherent kind of pinned memory: it is made exactly where it was asked for, and its bytes are "
        "right once the stream has been synchronized.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "flags of pinned memory decide its coherence unless one is asked for",
                "bridged",
                "HIP programming manual, coherency controls; kokkos/kokkos#5152",
            ),
            _NOT_ON_NVIDIAS,
        ),
    ),
    Clause(
        "HIP-06",
        "malloc_heap_size is what the heap begins with on AMD's devices, a limit on NVIDIA's, and malloc_heap_kind "
        "says which.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "the limit is the first slab of a heap that grows",
                "allowed",
                "ROCm/clr hipamd/src/hip_device_runtime.cpp, hipDeviceSetLimit (ROCm 5.6 and later); ROCm/HIP#3429",
            ),
        ),
    ),
    Clause(
        "HIP-07",
        "XNACK is told as the architecture's name has it, and None where the name is silent; managed memory migrates "
        "only with it.",
        backends=_HIP,
    ),
    Clause(
        "HIP-08",
        "Registration for reading only is refused with NotSupported, never taken for another flag.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "8 is read-only in CUDA and coarse-grained in HIP",
                "allowed",
                "hip_runtime_api.h, hipExtHostRegisterCoarseGrained",
            ),
        ),
    ),
    Clause(
        "HIP-09",
        "Two HIP runtimes in one process are told once, in a warning that names both: at the import, or at the first "
        "handle from elsewhere.",
        backends=_HIP,
        shortfalls=(
            Shortfall(
                "amd",
                "each copy of the runtime knows its own memory only",
                "allowed",
                "pytorch/pytorch#141014",
            ),
            _NOT_ON_NVIDIAS,
        ),
    ),
    Clause(
        "HIP-10",
        "Two names of one file are one runtime, and a copy under the module's own name that was there first serves: "
        "neither is warned of.",
        backends=_HIP,
        shortfalls=(_NOT_ON_NVIDIAS,),
    ),
)
