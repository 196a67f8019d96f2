# SPDX-License-Identifier: MIT
"""Why mutants survive, by their ids, as people found who looked at them.

``EQUIVALENT`` is one that no program can tell from the original on the CPU runtime. ``UNSEEN`` is one that a program
could tell, but not this suite: it is Python, and the CPU runtime is no GPU. A survivor that is neither is a hole in the
contract, and gets a clause.
"""

from __future__ import annotations

EQUIVALENT, UNSEEN = "equivalent", "unseen"

REASONS: dict[str, tuple[str, str]] = {
    "86b1d9c804": (EQUIVALENT, "a use with epoch 0 stands for none, and nobody reads the stream of that"),
    "60d526426d": (EQUIVALENT, "what a stream knows already is joined once more"),
    "a19f9a76d7": (EQUIVALENT, "a clock is joined with what it has joined before"),
    "6483cb8f76": (EQUIVALENT, "with epoch 0 no stream is looked at"),
    "bf0410f087": (EQUIVALENT, "memory of one row has no use for a pitch"),
    "1000db5f48": (EQUIVALENT, "a size of 0 takes the longer way to the same answer"),
    "572ac3dce8": (EQUIVALENT, "pools reserve chunks of 2 MiB: to keep one byte is to keep none"),
    "f0dbdeb196": (EQUIVALENT, "the runtime beneath answers an empty box in the same way"),
    "fca893d6e0": (EQUIVALENT, "no other call's name begins with Kno"),
    "7542353b3f": (EQUIVALENT, "the list is longer than what is copied out of it"),
    "847672b27f": (EQUIVALENT, "a stream that waits for itself is where it was"),
    "b7fbecfcdd": (EQUIVALENT, "the last part of the version is 0"),
    "dbb6529f33": (EQUIVALENT, "no known quirk is of the CPU runtime, so the rest is never asked"),
    "c979f9fdf4": (UNSEEN, "a round of chores that begins in the last tenth of a second before the process ends"),
    "dcc7cc0abb": (UNSEEN, "a bound on effort: beyond 65,536 rows of one copy the order checker may miss a fault"),
    "c64a353640": (UNSEEN, "no call of portamem's hands a null to the ground floor, whose callers are C++"),
    "9da4c88a73": (UNSEEN, "the CPU runtime never takes a threshold without keeping it, as AMD's may"),
    "a40914c5c3": (UNSEEN, "how often a pool's return is tried: some minutes, less a tenth of a second"),
    "4753c8f84b": (UNSEEN, "DLPack's stream numbers mean nothing for host memory, and 3 is no handle of a GPU's"),
    "154eaed20e": (UNSEEN, "all memory of the CPU runtime is DLPack's CPU, which was answered before"),
    "3abd747dd5": (UNSEEN, "the same: DLPack's managed memory is a GPU's"),
}
