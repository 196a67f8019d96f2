# SPDX-License-Identifier: MIT
"""Processes, fork and exit."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "PROCESS-01",
        "Processes that use one device at once do not touch each other's memory: each reads what it wrote, for as long "
        "as all of them hold it.",
    ),
    Clause(
        "PROCESS-02",
        "Importing portamem, and asking it for its names, opens no vendor's library and loads no native module; "
        "importing a backend does not call its driver.",
    ),
    Clause(
        "PROCESS-03",
        "Several backends live in one process: all that load can be imported in any order, and each goes on working.",
    ),
    Clause(
        "PROCESS-04",
        "In the child of a fork what reaches the runtime, such as allocating, freeing, copying, queuing and waiting, "
        "raises portamem.Error, named Forked, that speaks of the fork and of spawn. What needs the process's own "
        "memory alone goes on: sizes, addresses, held(device), parts and shapes, memoryviews of pinned memory whose "
        "work had run, a limit over a resource, and release().",
        shortfalls=(
            Shortfall(
                "nvidia",
                "a context does not live on in the child of a fork, whose calls answer InitializationError",
                "bridged",
                "NVIDIA/DALI#4275; inducer/pycuda#137",
            ),
        ),
    ),
    Clause(
        "PROCESS-05",
        "What a forked child has inherited leaks in silence: however it ends, it exits with its own status and says "
        "nothing.",
    ),
    Clause(
        "PROCESS-06",
        "A fork leaves the parent as it was: its memory keeps its bytes and its queued work runs, also where a stream "
        "was held meanwhile.",
    ),
    Clause(
        "PROCESS-07",
        "A forked child may start another program, and that uses the device as any does.",
    ),
    Clause(
        "PROCESS-08",
        "A forked child never waits for a thread that it has not: not for the one that lets go of finished work.",
    ),
    Clause(
        "PROCESS-09",
        "A program ends with its own exit status and says nothing, whatever is alive when it ends: buffers of every "
        "kind, exports, cycles, scopes, registrations.",
    ),
    Clause(
        "PROCESS-10",
        "A program ends so with work still pending: copies, host functions, a stream that is held until its end.",
    ),
    Clause(
        "PROCESS-11",
        "Handlers that run at exit can still allocate, use and free memory.",
    ),
    Clause(
        "PROCESS-12",
        "An exception that ends a program is told as itself: letting go of memory meanwhile adds nothing and hides "
        "nothing.",
    ),
    Clause(
        "PROCESS-13",
        "The child of os.fork reads pinned memory whose work had run by then, however the parent waited for it, and is "
        "refused memory whose work is pending. Where a stream has later work by then, the child reads what the parent "
        "had waited for by the stream, an event or the device, or had read itself.",
    ),
)
