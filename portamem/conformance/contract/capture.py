# SPDX-License-Identifier: MIT
"""Stream capture."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

_PROHIBITED = Shortfall(
    "both",
    "a call that a capture forbids fails and makes the capture invalid, whichever thread began it",
    "bridged",
    "CUDA C++ Programming Guide, graphs: prohibited operations and invalidation during stream capture",
)

CLAUSES = (
    Clause(
        "CAPTURE-01",
        'capture_status of a stream is "none", "active" from begin_capture on in any of its modes, and "none" after '
        "end_capture; the stream then works as before.",
    ),
    Clause(
        "CAPTURE-02",
        "A mode that is none, a second beginning, an end without a beginning and the capture of a default or closed "
        "stream are refused in words, and change nothing.",
    ),
    Clause(
        "CAPTURE-03",
        "Each operation of portamem that would belong to a captured stream is refused before any runtime call, in "
        "every mode: allocating, copying, filling, prefetching, host functions, waiting, asking, closing. The capture "
        "stays valid, and stream and memory are as before.",
        shortfalls=(_PROHIBITED,),
    ),
    Clause(
        "CAPTURE-04",
        "Touching or closing memory elsewhere whose declared use is on a captured stream is refused as well: it would "
        "have to wait for that stream.",
        shortfalls=(_PROHIBITED,),
    ),
    Clause(
        "CAPTURE-05",
        "What has nothing to do with the captured stream works in every mode, or is refused in words that say why; the "
        "capture stays valid either way.",
        shortfalls=(
            _PROHIBITED,
            Shortfall(
                "amd",
                "making and destroying pools, and managed memory outside of relaxed captures, are refused from 7.0 on",
                "bridged",
                "ROCm documentation, HIP 7.0 changes, stream capture",
            ),
        ),
    ),
    Clause(
        "CAPTURE-06",
        "While a blocking stream is captured, work on the default stream is refused, and goes on afterwards.",
        shortfalls=(_PROHIBITED,),
    ),
    Clause(
        "CAPTURE-07",
        "Memory of a captured stream stays usable when its close is refused, and can be closed later; what is "
        "forgotten under capture goes back after it.",
        "stream-ordered resources",
    ),
    Clause(
        "CAPTURE-08",
        "Other streams can join a capture by events or by waiting for its stream, and are captured until they are "
        "joined and it ends.",
    ),
    Clause(
        "CAPTURE-09",
        "An event that was recorded under capture can be waited for by streams, and refuses to be asked until it is "
        "recorded again; waiting under capture for an event or a stream outside of it is refused. The capture stays "
        "valid.",
        shortfalls=(_PROHIBITED,),
    ),
    Clause(
        "CAPTURE-10",
        "A capture of one thread keeps no other thread from allocating, freeing, and working on streams of its own.",
        shortfalls=(_PROHIBITED,),
    ),
    Clause(
        "CAPTURE-11",
        'A capture that other code has made invalid says "invalidated", its end raises an error with the runtime\'s '
        "code, and the stream works as before.",
    ),
    Clause(
        "CAPTURE-12",
        "Work that others put into a capture does not run, neither then nor when portamem ends it.",
    ),
)
