# SPDX-License-Identifier: MIT
"""Why mutants survive, by their ids, as people found who looked at them.

``EQUIVALENT`` is one that no program can tell from the original on the CPU runtime: it does not count, and another is
drawn in its place. ``UNSEEN`` is one that a program could tell, but not this suite: it is Python, and the CPU runtime
is no GPU. A survivor that is neither is a hole in the contract, and gets a clause.
"""

from __future__ import annotations

EQUIVALENT, UNSEEN = "equivalent", "unseen"

REASONS: dict[str, tuple[str, str]] = {
    "a694f3ec86": (EQUIVALENT, "one_batch sets the stream of every batch"),
    "6ead22825c": (EQUIVALENT, "no object is kept to be used again: each is made anew, which takes longer"),
    "e881d77461": (EQUIVALENT, "a blank allocation is nobody's, and what opens it sets its size"),
    "86b1d9c804": (EQUIVALENT, "a use with epoch 0 stands for none, and nobody reads the stream of that"),
    "d1c16cc638": (EQUIVALENT, "the end is set where the entry is made"),
    "a7d04a920e": (EQUIVALENT, "the time is set where the record is made"),
    "60d526426d": (EQUIVALENT, "what a stream knows already is joined once more"),
    "a4782daa8c": (EQUIVALENT, "the depth is set where the line is made"),
    "09d1dddeb8": (EQUIVALENT, "room that nobody uses"),
    "bf0410f087": (EQUIVALENT, "memory of one row has no use for a pitch"),
    "13888eef3b": (EQUIVALENT, "a hint to the compiler"),
    "1d55041df3": (EQUIVALENT, "rounded down, the number of words is the same"),
    "fc17d53e29": (
        UNSEEN,
        "when what is over is cleared away: lanes of streams that are gone take host memory a little longer",
    ),
    "4264a28821": (UNSEEN, "which pages are near a device: the CPU runtime's device is near none"),
    "c64a353640": (UNSEEN, "no call of portamem's hands a null to the ground floor, whose callers are C++"),
    "7491d62b86": (UNSEEN, "Python's closed buffers have let go of what this looks at: C++ may still ask"),
    "09287b7bd6": (UNSEEN, "what the vendor's checker is told of a chunk: there is none on the CPU"),
    "e498588b3b": (UNSEEN, "one size in 2 ** 64, refused for want of memory either way, in other words"),
    "b7323a1ea1": (UNSEEN, "which pages are near a device: the CPU runtime's device is near none"),
    "bae6791734": (UNSEEN, "one more character of a message that is cut because the setting it quotes is so long"),
    "1e0fa69fa8": (UNSEEN, "which block leaves a full cache: any of them serves, what changes is the time"),
    "999f8764ac": (UNSEEN, "one free piece less is joined to what is asked for, so that the upstream is asked sooner"),
    "34b53b0b38": (UNSEEN, "what is left of a table's memory when hundreds of large blocks used it: the C++ tests do"),
    "a94571be50": (UNSEEN, "a release that there was no host memory to put off is not asked for again"),
    "817eaf30fc": (UNSEEN, "a release policy is asked for small blocks that the host reaches: the C++ tests see it"),
    "2dc41922f0": (UNSEEN, "a look at the clock more, for a time that nobody shows where call sites are not kept"),
}
