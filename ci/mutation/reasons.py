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
    "08bed5d3d2": (EQUIVALENT, "how far a pool grows ahead of what is asked for, at most: a MiB more"),
    "91cf6bb036": (
        EQUIVALENT,
        "where not even the smallest blocks make room in a cache, the block itself goes past it",
    ),
    "a694f3ec86": (EQUIVALENT, "batches are made by one function, which sets the stream"),
    "56d7ff36a0": (EQUIVALENT, "no one calls it: the figures look at every block themselves"),
    "fc17d53e29": (EQUIVALENT, "when lanes of streams that are gone are cleared away; their blocks are had either way"),
    "6ead22825c": (EQUIVALENT, "no Buffer object is kept for the next, and each is made anew"),
    "e881d77461": (EQUIVALENT, "a blank allocation's size is set before anybody has it"),
    "d1c16cc638": (EQUIVALENT, "the end is set with the rest of the entry"),
    "a7d04a920e": (EQUIVALENT, "the time is set before the entry is in the table"),
    "a4782daa8c": (EQUIVALENT, "the depth is set before the line is written"),
    "09d1dddeb8": (EQUIVALENT, "one more word of a record, which no one uses"),
    "0e96f766b7": (
        EQUIVALENT,
        "another guess of the chunk that is prepared: a wrong one is freed, and the right one made",
    ),
    "2b5a120f55": (EQUIVALENT, "the same: sizes that double are guessed wrong"),
    "7491d62b86": (EQUIVALENT, "a buffer that is closed and has its Allocation still is a blank one"),
    "e38b947e3a": (
        EQUIVALENT,
        "never reached: a chunk is added and cut under one lock, and is large enough for any cut",
    ),
    "09287b7bd6": (EQUIVALENT, "only called where the runtime has a memory checker, which CUDA's has"),
    "e498588b3b": (EQUIVALENT, "a size that is all of the address space is refused with redzones as without"),
    "13888eef3b": (EQUIVALENT, "a hint for the compiler"),
    "1d55041df3": (EQUIVALENT, "303 / 65 is 4 as 303 / 64 is"),
    "b7323a1ea1": (UNSEEN, "the same, where the node of a device is none of the host's processors"),
    "bae6791734": (EQUIVALENT, "how much of a long message is kept: a character more"),
    "4264a28821": (UNSEEN, "near which device host pages lie, on a machine of several NUMA nodes"),
    "d083bc420c": (UNSEEN, "host memory that runs out between two records of one cut"),
    "3b07bc8744": (UNSEEN, "the same: without a memory checker nobody asks"),
    "7effa662f8": (UNSEEN, "it takes a build with AddressSanitizer, or compute-sanitizer, for a pool to be followed"),
    "c979f9fdf4": (UNSEEN, "a round of chores that begins in the last tenth of a second before the process ends"),
    "dcc7cc0abb": (UNSEEN, "a bound on effort: beyond 65,536 rows of one copy the order checker may miss a fault"),
    "c64a353640": (UNSEEN, "no call of portamem's hands a null to the ground floor, whose callers are C++"),
    "9da4c88a73": (UNSEEN, "the CPU runtime never takes a threshold without keeping it, as AMD's may"),
    "a40914c5c3": (UNSEEN, "how often a pool's return is tried: some minutes, less a tenth of a second"),
    "4753c8f84b": (UNSEEN, "DLPack's stream numbers mean nothing for host memory, and 3 is no handle of a GPU's"),
    "154eaed20e": (UNSEEN, "all memory of the CPU runtime is DLPack's CPU, which was answered before"),
    "3abd747dd5": (UNSEEN, "the same: DLPack's managed memory is a GPU's"),
}
