# SPDX-License-Identifier: MIT
"""Resources over resources: adaptors, callbacks, and what carves its buffers out of larger memory."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause

CLAUSES = (
    Clause(
        "RESOURCE-01",
        "A resource over another says of its memory what that one says: kind, device, device_id, and who reaches it.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-02",
        "It keeps the resource below alive, also where the program has dropped that, and names it as `upstream`.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-03",
        "It closes alone: the resource below stays open and usable, holds nothing of it any more, and gives others "
        "memory.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-04",
        "While it holds memory of the resource below, that one refuses to close with BufferError; once that is closed, "
        "what would need new memory of it raises ValueError that says so, and nothing is counted.",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-05",
        "No resource stands over one that is closed (ValueError), or over what is no resource (TypeError).",
        "resources over an upstream",
    ),
    Clause(
        "RESOURCE-06",
        "A LimitingAdaptor lets no more than its limit out, of any number of threads, and refuses the rest with "
        "OutOfMemoryError that names the limit, before the resource below is asked.",
    ),
    Clause(
        "RESOURCE-07",
        "A scope goes on at a limit: what is refused there is counted nowhere, and what is let go of makes room.",
    ),
    Clause(
        "RESOURCE-08",
        "A StatisticsAdaptor counts bytes and buffers, current, most and in all, over its life, in nested scopes, by "
        "tag and by thread; refusals too.",
    ),
    Clause(
        "RESOURCE-09",
        "A TrackingAdaptor knows each buffer that is out, with its address, size, stream, thread, time and the line "
        "that asked for it.",
    ),
    Clause(
        "RESOURCE-10",
        "A LoggingAdaptor writes a line of JSON for each allocation and free, in their order, and its file is whole "
        "when it is closed.",
    ),
    Clause(
        "RESOURCE-11",
        "A FailureCallbackAdaptor asks the program's function when there is no memory, and tries again for as long as "
        "it answers True; the function may free, trim and allocate from the same pool.",
    ),
    Clause(
        "RESOURCE-12",
        "A PrefetchAdaptor gives managed memory that has its bytes wherever it is, and stands over no memory that does "
        "not move.",
    ),
    Clause(
        "RESOURCE-13",
        "A FixedSizeMemoryResource gives blocks of one size, each to one buffer at a time, takes them back on any "
        "stream, and refuses more than a block.",
    ),
    Clause(
        "RESOURCE-14",
        "A MonotonicMemoryResource uses no byte twice before release(), which refuses while a buffer is out and then "
        "gives everything back.",
    ),
    Clause(
        "RESOURCE-15",
        "A CallbackMemoryResource calls the program's two functions, Python's or C's, once for each buffer that has "
        "bytes, with its size and its stream.",
    ),
    Clause(
        "RESOURCE-16",
        "What a function of the program's raises reaches the caller that allocates or frees as it is, through "
        "everything that stands above it: nothing is counted or lost, and the next call works.",
    ),
    Clause(
        "RESOURCE-17",
        "The functions of the program's may use the very resources that stand over them: a pool does not wait for "
        "itself.",
    ),
    Clause(
        "RESOURCE-18",
        "`portamem replay` makes the calls of a log again, against the resource that is named, or that a function of "
        "the user's makes: in their order, with their sizes, on as many threads and streams. What a log says its "
        "program had refused does not fail the replay.",
    ),
    Clause(
        "RESOURCE-19",
        "A log that is cut off, of another version, of several backends of which none is named, or that no program can "
        "have written is not replayed: exit status 1, and the line and the reason, before anything is allocated.",
    ),
    Clause(
        "RESOURCE-20",
        "What of a TrackingAdaptor's is out when it goes, or when the process ends, is said on standard error: how "
        "much in all, and of each buffer its size, tag, thread, stream and the line that asked for it.",
    ),
    Clause(
        "RESOURCE-21",
        "A function of the program's that is called while an exception is on its way, since memory is dropped then, "
        "runs as at any other time, and the exception arrives: a release policy, the functions of a "
        "CallbackMemoryResource, the finalizer of what owns foreign memory, a weak reference's function. What it "
        "raises itself is told `sys.unraisablehook`.",
    ),
    Clause(
        "RESOURCE-22",
        "Memory of a CallbackMemoryResource's that shares a byte with what it has out is refused with ValueError, "
        "which says what is out: the program's second function is not called for it, since the memory is in use, and "
        "what is out keeps its bytes. An address that is not a multiple of the alignment is refused and goes back.",
    ),
    Clause(
        "RESOURCE-23",
        "After a call that failed, an adaptor's figures are what they were before it, whatever failed: no memory, an "
        "error of the runtime, an exception of the program's, a free that the resource below did not take or that was "
        "refused. An allocation that failed counts once more as refused, and a buffer whose free failed stays open and "
        "can be closed again.",
    ),
    Clause(
        "RESOURCE-24",
        "Peaks that are reset start again at what is current: in all, for each tag and for each thread. Totals stay.",
    ),
    Clause(
        "RESOURCE-25",
        "Every adaptor over a pool hands on alignments of any size: the address is a multiple, the bytes are the "
        "buffer's own, and the figures count the bytes that were asked for. What the resource below cannot align is "
        "refused with ValueError.",
    ),
    Clause(
        "RESOURCE-26",
        "A FallbackAdaptor gives memory of its alternate where its upstream has none, takes each buffer back to the "
        "resource that gave it, and raises OutOfMemoryError only where neither has memory; it stands over two "
        "resources whose memory is reached and ordered alike.",
    ),
)
