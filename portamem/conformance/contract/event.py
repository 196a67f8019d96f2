# SPDX-License-Identifier: MIT
"""Streams and events."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "EVENT-01",
        "A new stream is open, has a handle, belongs to the device it was made for, holds no work and is no default "
        "stream; one that is to be nonblocking is, and one that is not is not.",
    ),
    Clause(
        "EVENT-02",
        "A stream has the priority that was asked for, within the device's range; a priority outside is taken to its "
        "nearer end.",
    ),
    Clause(
        "EVENT-03",
        "A stream's identity is never given to another, unlike its handle; streams are equal if they are the same, and "
        "can be keys.",
    ),
    Clause(
        "EVENT-04",
        "A closed stream refuses every use in words, can be closed again, and still says who it was. A default stream "
        "cannot be closed.",
        shortfalls=(
            Shortfall(
                "both",
                "the runtime crashes at a handle that is no stream's any more",
                "bridged",
                "ROCm documentation, HIP 7.0 changes: an invalid stream handle is a segmentation fault, as with CUDA",
            ),
        ),
    ),
    Clause(
        "EVENT-05",
        "A stream or an event made of a handle is the same one; closing it destroys nothing, and it keeps the owner "
        "that was named for as long as it lives.",
    ),
    Clause(
        "EVENT-06",
        "The handles 0 and 1 are a device's default stream on every backend, and 2 is the calling thread's own.",
        shortfalls=(
            Shortfall(
                "amd",
                "hipStreamLegacy is there from HIP 6.2 on, and 1 is no stream before",
                "bridged",
                "hip_runtime_api.h, HIP 5.2 to 7.1",
            ),
        ),
    ),
    Clause(
        "EVENT-07",
        "Whatever takes a stream takes an object with __cuda_stream__ too, keeps it alive while it is a Stream, and "
        "portamem's streams have that themselves.",
    ),
    Clause(
        "EVENT-08",
        "What is no stream is refused with TypeError: a bare number, which the message says how to give, an unknown "
        "version of the protocol, an object without it; what the object's own method raises arrives as it is.",
    ),
    Clause(
        "EVENT-09",
        "One foreign object for a default stream means that of the device which is current where it is used, and one "
        "for the per-thread stream that of the thread.",
    ),
    Clause(
        "EVENT-10",
        "A host function runs once, in stream order, on a thread that is not its caller's, and is let go of then.",
    ),
    Clause(
        "EVENT-11",
        "A host function that raises is reported by sys.unraisablehook, and the stream goes on.",
    ),
    Clause("EVENT-12", "An event that was never recorded is done, and has a handle and the device it was made for."),
    Clause(
        "EVENT-13",
        "A recorded event is done when the work before it on its stream is, and not before; recording it again moves "
        "the mark. It does not wait for what is queued later.",
    ),
    Clause("EVENT-14", "An event that is recorded without a stream is recorded on its device's default stream."),
    Clause(
        "EVENT-15",
        "The time between two events with timing is in milliseconds, and holds what happened between them on the "
        "stream.",
    ),
    Clause(
        "EVENT-16",
        "There is no time between events while one of them is unfinished, and none between events without timing: "
        "both are refused in words.",
    ),
    Clause(
        "EVENT-17",
        "An event can be closed while its mark is unfinished, and twice; a closed one refuses every use in words.",
    ),
    Clause(
        "EVENT-18",
        "A stream can wait for an event, and for a stream, of another device; an event is recorded on streams of its "
        "own device only.",
    ),
    Clause(
        "EVENT-19",
        "handle is the runtime's own handle: others who ask it get the same answer about a stream's and an event's "
        "progress.",
    ),
)
