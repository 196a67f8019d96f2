# SPDX-License-Identifier: MIT
"""Stream order, and reuse of memory across streams."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall
from portamem.conformance.contract.managed import PREFETCH_MAY_WAIT

CLAUSES = (
    Clause(
        "ORDER-01",
        "A copy with a stream returns when it is queued, and happens behind what the stream holds; its event and the "
        "stream are done when the bytes are there, and not before.",
        "all but system memory",
    ),
    Clause(
        "ORDER-02",
        "A fill with a stream returns when it is queued, happens behind what the stream holds, and is done with its "
        "event.",
        "every resource",
        shortfalls=(
            Shortfall(
                "both",
                "the runtimes set only memory that the device reaches, and refuse memory of malloc",
                "emulated",
                "CUDA runtime API and HIP runtime API, MemsetAsync: the pointer is to device memory",
            ),
        ),
    ),
    Clause(
        "ORDER-03",
        "Work on one stream happens in the order in which it was queued: fills, copies and host functions alike.",
        "all but system memory",
    ),
    Clause(
        "ORDER-04",
        "A stream that waits for another stream, or for an event, begins no later work before what that held at the "
        "moment of the wait is done.",
    ),
    Clause(
        "ORDER-05",
        "A wait is for an event's mark at that moment: recording the event again changes nothing, and an event that "
        "was never recorded holds up no wait.",
    ),
    Clause("ORDER-06", "Streams that were not told to do so do not wait for each other."),
    Clause(
        "ORDER-07",
        "The default stream and blocking streams wait for each other, and the calling thread's own default stream is a "
        "blocking stream.",
    ),
    Clause(
        "ORDER-08",
        "Nonblocking streams and the default stream do not wait for each other, nor do two blocking streams.",
    ),
    Clause(
        "ORDER-09",
        "A copy or fill without a stream comes after everything declared on the memory it touches, on whatever stream, "
        "and is done on return.",
        "every resource",
        shortfalls=(
            Shortfall(
                "both",
                "Memset may return before it is done, and copies from one place on a device to another do",
                "bridged",
                "CUDA runtime API, API synchronization behavior",
            ),
        ),
    ),
    Clause("ORDER-10", "Synchronizing a device waits for the work of all its streams."),
    Clause(
        "ORDER-11",
        "A copy reads and writes what it was given, even where its memory is let go of before it has happened.",
        "all but system memory",
    ),
    Clause(
        "ORDER-12",
        "A copy from or to a Python object's memory keeps the object alive as long as it uses the memory, and no "
        "longer than some moments.",
    ),
    Clause(
        "ORDER-13",
        "Closing stream-ordered memory does not wait, and is behind the work on its own stream and no other that was "
        "not declared.",
        "the driver's pools",
    ),
    Clause(
        "ORDER-14",
        "Stream-ordered memory goes back behind the work of every stream that was declared to use it: while a latch "
        "holds that, no other work writes where that work does.",
        "stream-ordered resources",
        shortfalls=(
            Shortfall(
                "amd",
                "memory that is freed on another stream than it came from is handed out too early on some devices",
                "bridged",
                "https://github.com/ROCm/rocm-systems/issues/10943",
            ),
        ),
    ),
    Clause(
        "ORDER-15",
        "close(stream=...) gives memory back behind the work on that stream.",
        "every resource",
    ),
    Clause(
        "ORDER-16",
        "Memory without stream order is given back when the work declared on it is done: close waits for that.",
        "resources without stream order that keep nothing",
        shortfalls=(
            Shortfall(
                "both",
                "Free waits for the device's work by custom and not by promise; HIP 7 does not for memory of pools",
                "bridged",
                "CUDA runtime API, Free: may perform implicit synchronization; ROCm documentation, HIP 7.0 changes, "
                "hipFree",
            ),
        ),
    ),
    Clause(
        "ORDER-17",
        "Memory that the host reaches is not handed out again while work declared on it is unfinished, closed or "
        "forgotten.",
        "host-accessible memory",
    ),
    Clause(
        "ORDER-18",
        "Memory that one stream freed and another gets is written by the second only after the first's work is done, "
        "with an event between the streams or without one.",
        "stream-ordered resources",
    ),
    Clause(
        "ORDER-19",
        "A stream gets memory that it freed itself again at once, before that work is done: a loop takes no more of "
        "the device than its first turn.",
        "the driver's pools",
    ),
    Clause(
        "ORDER-20",
        "A stream that is declared to use memory begins its work behind what the memory's own stream held then.",
        "every resource",
    ),
    Clause(
        "ORDER-21",
        "A buffer keeps its stream alive, works and can be closed after that stream was closed.",
        "every resource",
    ),
    Clause("ORDER-22", "What was queued on a stream still happens after the stream is closed."),
    Clause(
        "ORDER-23",
        "Closing a stream hands its pending frees over: the memory is the pool's again once they have run.",
        "the driver's pools",
    ),
    Clause(
        "ORDER-24",
        "The per-thread default stream is another one on each thread. On a thread that is not its own every use is "
        "refused in words, and only waiting for it is allowed.",
        shortfalls=(
            Shortfall(
                "both",
                "one handle names as many streams as there are threads, so that a use on a wrong thread goes to "
                "another stream without a word",
                "bridged",
                "CUDA runtime API, stream synchronization behavior: per-thread default stream",
            ),
        ),
    ),
    Clause(
        "ORDER-25",
        "Memory of a thread's own default stream that another thread closes goes back behind the work on that stream.",
        "stream-ordered resources",
    ),
    Clause(
        "ORDER-26",
        "A prefetch with a stream happens in that stream's order.",
        "managed memory",
        defects=(PREFETCH_MAY_WAIT,),
    ),
    Clause(
        "ORDER-27",
        "After any sequence of allocations, frees, fills and copies on several streams that events keep in order, "
        "every byte is what was written last, and live ranges never overlap.",
    ),
    Clause(
        "ORDER-28",
        "Work of other libraries on a stream's handle is in that stream's order, and memory is given back behind it "
        "once the stream was declared.",
        "stream-ordered resources",
    ),
)
