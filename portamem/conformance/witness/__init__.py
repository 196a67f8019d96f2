# SPDX-License-Identifier: MIT
"""Independent witnesses of what portamem says and does: the vendors' own Python packages, and kernels on the device.

A witness reads nothing through portamem: it takes handles and addresses as ints and asks the runtime itself.
"""

from __future__ import annotations

from functools import cache

from portamem.conformance.witness.base import Witness
from portamem.conformance.witness.counter import Counter
from portamem.conformance.witness.facts import PointerFacts, WitnessError, WitnessMissing
from portamem.conformance.witness.heap import HeapReport, KeptHeapMemory
from portamem.conformance.witness.latch import DeviceLatch
from portamem.conformance.witness.pattern import pattern

__all__ = [
    "Counter",
    "DeviceLatch",
    "HeapReport",
    "KeptHeapMemory",
    "PointerFacts",
    "Witness",
    "WitnessError",
    "WitnessMissing",
    "pattern",
    "witness_for",
]


@cache
def witness_for(backend: str, ordinal: int) -> Witness:
    """The witness of one device of a backend: "cuda", "hip" or "host". One is made for each device and kept.

    WitnessMissing where its package or library is not here, with what to install. One that is here and broken fails
    with its own error.
    """
    from portamem import _build

    platform = _build.info()["backends"].get(backend, {}).get("platform")
    if backend == "host":
        from portamem.conformance.witness.host import HostWitness

        return HostWitness(backend, ordinal)
    if backend == "cuda" or platform == "nvidia":
        from portamem.conformance.witness.nvidia import NvidiaWitness

        return NvidiaWitness(backend, ordinal)
    if backend == "hip":
        from portamem.conformance.witness.amd import AmdWitness

        return AmdWitness(backend, ordinal)
    raise ValueError(f"there is no backend {backend!r}: they are cuda, hip and host")
