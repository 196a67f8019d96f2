# SPDX-License-Identifier: MIT
"""The contract: what portamem promises, one file for each group of clauses. evidence/contract.md is made of these."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from portamem.conformance.contract.clause import Clause


@dataclass(frozen=True)
class Group:
    """Clauses that belong together. ``module`` is the file here that holds them."""

    name: str
    title: str
    module: str


GROUPS = (
    Group("ALLOC", "Allocation, alignment and zero sizes", "alloc"),
    Group("FREE", "Freeing, and frees that are wrong", "free"),
    Group("OWN", "Ownership and exports", "own"),
    Group("ORDER", "Stream order, and reuse across streams", "order"),
    Group("HOSTACCESS", "Access by the host", "hostaccess"),
    Group("EVENT", "Streams and events", "event"),
    Group("POOL", "Pools, the driver's and portamem's: threshold, trim, counters, reuse", "pool"),
    Group("RESOURCE", "Resources over resources", "resource"),
    Group("PINNED", "Pinned and registered memory", "pinned"),
    Group("MANAGED", "Managed and system memory", "managed"),
    Group("VIRTUAL", "Memory that is mapped to reserved addresses", "virtual"),
    Group("COPY", "Copies and fills", "copy"),
    Group("POINTER", "Pointer queries", "pointer"),
    Group("DEVICE", "Devices, limits and capabilities", "device"),
    Group("HEAP", "The device heap", "heap"),
    Group("CAPTURE", "Stream capture", "capture"),
    Group("ERROR", "Errors and recovery", "error"),
    Group("THREAD", "Threads and the GIL", "thread"),
    Group("PROCESS", "Processes, fork and exit", "process"),
    Group("ABSENT", "Machines without a device", "absent"),
    Group("CUDA", "What is CUDA's own", "cuda"),
    Group("HIP", "What is HIP's own", "hip"),
    Group("HOST", "What is the CPU runtime's own", "host"),
)


def clauses() -> dict[str, Clause]:
    """Every clause by its id, in the order of the contract. ValueError for an id that is used twice."""
    found: dict[str, Clause] = {}
    for group in GROUPS:
        for clause in import_module(f"portamem.conformance.contract.{group.module}").CLAUSES:
            if clause.id in found or clause.group != group.name:
                raise ValueError(f"{clause.id} is there twice, or not of group {group.name}")
            found[clause.id] = clause
    return found
