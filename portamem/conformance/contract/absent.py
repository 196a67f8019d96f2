# SPDX-License-Identifier: MIT
"""Machines without a device."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

_GPU = ("cuda", "hip")

CLAUSES = (
    Clause(
        "ABSENT-01",
        "Without a device, importing a backend, counting devices, and asking for versions, for what is held and for "
        "null pointers is no error.",
        shortfalls=(
            Shortfall(
                "nvidia",
                "cudaGetDeviceCount leaves the count untouched, and answers InsufficientDriver for ever",
                "bridged",
                "driver_types.h, cudaErrorInsufficientDriver; measured without a driver, CUDA 11.8 to 13.5",
            ),
        ),
    ),
    Clause(
        "ABSENT-02",
        "Every call that needs a device then raises portamem.Error, named NoDevice on every backend, with the "
        "runtime's own code, the call, and words that say where to look.",
        shortfalls=(
            Shortfall(
                "amd",
                "calls other than hipGetDeviceCount answer InvalidDevice",
                "bridged",
                "hip_runtime_api.h, hipErrorNoDevice: for hipGetDeviceCount; measured without a device, HIP 5.2.3",
            ),
        ),
    ),
    Clause(
        "ABSENT-03",
        "That is so in any order of calls, whichever is the first.",
    ),
    Clause(
        "ABSENT-04",
        "Whatever is given to whatever is public, the answer is a value, portamem.Error, TypeError or ValueError: "
        "nothing crashes, and nothing is told on standard error.",
    ),
    Clause(
        "ABSENT-05",
        "A buffer, a stream or a resource that needs no device to be refused is refused for what is wrong with it: "
        "misuse is ValueError or TypeError.",
    ),
    Clause(
        "ABSENT-06",
        "backends() says why a backend has no device: a code from a fixed list, a sentence, and what would help. It "
        "says the same after calls were refused.",
    ),
    Clause(
        "ABSENT-07",
        "The number of devices and the code are those that the vendor's own package finds.",
        backends=_GPU,
    ),
    Clause(
        "ABSENT-08",
        "Masks that hide devices are told in the order in which they apply.",
        backends=_GPU,
    ),
    Clause(
        "ABSENT-09",
        "A program that names this backend, or requires a GPU, is told so with the reason: it never runs on another "
        "one instead.",
    ),
    Clause(
        "ABSENT-10",
        "The command line says it in words: info exits with 0, the demo with another status, and no traceback is "
        "shown.",
    ),
    Clause(
        "ABSENT-11",
        "The CPU's backend beside it works as ever.",
        backends=_GPU,
    ),
    Clause(
        "ABSENT-12",
        "Threads that ask at the same time get the same answers.",
    ),
)
