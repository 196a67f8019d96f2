# SPDX-License-Identifier: MIT
"""Pinned and registered memory."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Defect, Shortfall

REGISTRATION_UNTOLD = Shortfall(
    "amd",
    "HIP 5.2 does not say whether a device can register memory of the host",
    "capability",
    "hip_runtime_api.h of HIP 5.2 and 6.1: hipDeviceAttributeHostRegisterSupported",
)

SAME_ADDRESS_UNTOLD = Shortfall(
    "both",
    "HIP 5.2 does not say whether registered memory has one address for both sides",
    "capability",
    "hip_runtime_api.h of HIP 5.2, hipDeviceAttributeCanUseHostPointerForRegisteredMem: Cuda only; and its "
    "nvidia_hip_runtime_api.h, which leaves it out",
)

CLAUSES = (
    Clause(
        "PINNED-01",
        "Host and device share pinned memory: what one of them has written the other reads at the same place, without "
        "a copy.",
        "pinned memory",
    ),
    Clause(
        "PINNED-02",
        "Pinned memory is the host's: its device_id is -1, both sides reach it, and the runtime knows its address as "
        "host memory that the device reaches.",
        "pinned memory",
    ),
    Clause(
        "PINNED-03",
        "Every combination of portable, mapped and write-combined gives memory that keeps its bytes, and that every "
        "device copies from and to.",
    ),
    Clause(
        "PINNED-04",
        "Memory is write-combined exactly where that was asked for.",
    ),
    Clause(
        "PINNED-05",
        "Pinned memory is coherent unless asked otherwise, whatever its other flags are: a kernel that runs sees what "
        "the host writes, and the host what the kernel writes.",
        shortfalls=(
            Shortfall(
                "amd",
                "hipHostMalloc with only Portable or WriteCombined gives non-coherent memory",
                "bridged",
                "HIP programming manual, coherency controls; kokkos/kokkos#5152",
            ),
        ),
    ),
    Clause(
        "PINNED-06",
        "A resource says which coherence was asked for, and refuses with ValueError one that pinned memory has not.",
    ),
    Clause(
        "PINNED-07",
        "Registered memory stays the object's own: same address, same bytes. The runtime knows it as host memory while "
        "it is registered, and no longer once that is closed.",
    ),
    Clause(
        "PINNED-08",
        "The device reads and writes registered memory in stream order, and a copy between the two on a stream never "
        "waits for the stream.",
    ),
    Clause(
        "PINNED-09",
        "device_handle is the address by which kernels reach registered memory. It is the host's address exactly where "
        "the capability registered_pointer_is_device_pointer says so.",
        shortfalls=(
            Shortfall(
                "amd",
                "the device's address of registered memory may differ from the host's",
                "allowed",
                "hip_runtime_api.h, hipHostGetDevicePointer; ROCm/HIP#2189",
            ),
            SAME_ADDRESS_UNTOLD,
        ),
    ),
    Clause(
        "PINNED-10",
        "A registration keeps its object and the object's buffer: it outlives the last other reference, and a "
        "bytearray cannot be resized under it.",
    ),
    Clause(
        "PINNED-11",
        "Closing a registration waits for the work that uses the memory; twice is fine; one whose last holder drops it "
        "is undone by itself. What is closed refuses copies with ValueError.",
    ),
    Clause(
        "PINNED-12",
        "Registering memory again, all of it or with one end in a registered range, is refused with "
        "HostMemoryAlreadyRegistered, and the first registration goes on. Its neighbours can be registered.",
        shortfalls=(
            Shortfall(
                "amd",
                "hipHostRegister takes memory that is registered already, and the first unregistering undoes both",
                "bridged",
                "ROCm/rocm-systems#7498",
            ),
        ),
    ),
    Clause(
        "PINNED-13",
        "Registering memory with a registered range in the middle is refused with HostMemoryAlreadyRegistered, and "
        "that range keeps working.",
        defects=(
            Defect(
                "amd",
                "hipHostRegister takes memory that is registered already",
                "https://github.com/ROCm/rocm-systems/pull/7498",
                "first version unknown; in the source of 6.3, and in those with the check of this thread (June 2026), "
                "which looks at where the new range begins and no further",
                ("pinned_registered.around_it",),
            ),
        ),
    ),
    Clause(
        "PINNED-14",
        "Memory can be registered for reading only, read-only objects too: copies from it arrive, and copies into it "
        "are refused with ValueError before they touch it.",
        backends=("cuda", "host"),
        shortfalls=(
            Shortfall(
                "amd",
                "the number of CUDA's read-only flag asks for coarse-grained memory instead: HIP is not bound",
                "capability",
                "hip_runtime_api.h, hipExtHostRegisterCoarseGrained",
            ),
            Shortfall(
                "nvidia",
                "HIP's headers, on NVIDIA's devices too, have no read-only flag; CUDA's have",
                "capability",
                "hip_runtime_api.h of HIP 5.2: the flags of hipHostRegister; driver_types.h, cudaHostRegisterReadOnly",
            ),
        ),
    ),
    Clause(
        "PINNED-15",
        "What has no buffer, is not contiguous, is empty, holds references to Python objects, is a masked array, or is "
        "read-only and not registered as that, is refused with TypeError, ValueError or BufferError.",
    ),
    Clause(
        "PINNED-16",
        "Every combination of portable and mapped registers, and the memory copies to and from every device.",
    ),
    Clause(
        "PINNED-17",
        "Where the runtime registers nothing, prefaulted pinned memory is HostMalloc's, like any other, and nothing is "
        "allocated that the program has not asked for.",
        backends=("host",),
    ),
    Clause(
        "PINNED-18",
        "Memory that is not there is not registered: a range that the process cannot read to its last page is "
        "refused with InvalidValue, and nothing is registered.",
    ),
)
