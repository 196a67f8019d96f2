# SPDX-License-Identifier: MIT
"""Clauses that only the CPU runtime has: the machine that it pretends to be, and its knobs."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause

_HOST = ("host",)

CLAUSES = (
    Clause(
        "HOST-01",
        "PORTAMEM_HOST_DEVICES is the number of devices: each with a uuid, an address that no machine has, and memory "
        "of its own.",
        backends=_HOST,
    ),
    Clause(
        "HOST-02",
        "PORTAMEM_HOST_MODEL makes it a discrete card, an APU or a coherent node: its capabilities and what host and "
        "device reach are those of such a machine. Without it, it is a discrete card.",
        backends=_HOST,
    ),
    Clause(
        "HOST-03",
        "With PORTAMEM_HOST_GUARD a touch of device memory by the host is a fault, and everything else works as "
        "without.",
        backends=_HOST,
    ),
    Clause(
        "HOST-04",
        "With PORTAMEM_HOST_OPEN the host reads and writes device memory in place; without it, and on no APU, the "
        "buffer protocol is refused.",
        backends=_HOST,
    ),
    Clause(
        "HOST-05",
        "A setting that cannot be read is an error that names it and its value, never the default in silence.",
        backends=_HOST,
    ),
    Clause(
        "HOST-06",
        "A device has the capacity that was set, by environment or knob, and no more; each has its own, and what is "
        "given back can be taken again.",
        backends=_HOST,
    ),
    Clause(
        "HOST-07",
        "memory_info counts every byte: what is free falls by what is taken, in whole pages, and is back afterwards.",
        backends=_HOST,
    ),
    Clause(
        "HOST-08",
        "Where memory runs out the error says what was asked, what the device has, what is in use and what would "
        "help. What pools keep idle goes to who needs it before that, trimmed or not.",
        backends=_HOST,
    ),
    Clause(
        "HOST-09",
        "With a copy delay, by environment or knob, a copy or a fill takes at least so long, and changes nothing else.",
        backends=_HOST,
    ),
    Clause(
        "HOST-10",
        "The n-th call of a name, or of any, fails with the code that was asked for, once, having done nothing; the "
        "calls around it succeed.",
        backends=_HOST,
    ),
    Clause(
        "HOST-11",
        "reset() puts every knob back to what the environment says.",
        backends=_HOST,
    ),
    Clause(
        "HOST-12",
        "Knobs refuse devices, sizes, codes and delays that are none, with ValueError or TypeError.",
        backends=_HOST,
    ),
    Clause(
        "HOST-13",
        "What could not be probed is unknown, and is tried again.",
        backends=_HOST,
    ),
    Clause(
        "HOST-14",
        "A function that a stream runs may call nothing of the runtime: such a call is refused with NotPermitted, and "
        "the stream goes on.",
        backends=_HOST,
    ),
    Clause(
        "HOST-15",
        "Every limit that is set reads back exactly; one beyond the device's memory is refused with InvalidValue and "
        "changes nothing.",
        backends=_HOST,
    ),
    Clause(
        "HOST-16",
        "The reference has no quirks, its version is portamem's, and its one kind of pinned memory is coherent.",
        backends=_HOST,
    ),
    Clause(
        "HOST-17",
        "Its devices are each other's peers, and access between them has to be enabled once and disabled once.",
        backends=_HOST,
    ),
    Clause(
        "HOST-18",
        "Fine-grained device memory is there, uncached is refused with NotSupported.",
        backends=_HOST,
    ),
    Clause(
        "HOST-19",
        "Every function of its C interface that answers a code refuses what it takes of these with the code that its "
        "header names, and does nothing: a null for a result, unknown flags, attributes, locations, handles and "
        "devices; freeing null, and work on 0 bytes, is fine. The code is the thread's last error until it is asked "
        "for; every code has a text, and what kernels call answers null to others.",
        backends=_HOST,
    ),
    Clause(
        "HOST-20",
        "Memcpy3D moves the box that it names between volumes of any pitch and height, and no byte beside it; a box "
        "that leaves its volume is refused with InvalidValue.",
        backends=_HOST,
    ),
    Clause(
        "HOST-21",
        "MemcpyPeer copies from device to device, and refuses memory that is not of the device that is named for it.",
        backends=_HOST,
    ),
    Clause(
        "HOST-22",
        "Streams, events and pools of the C interface tell flags, device and access as they were made. What belongs to "
        "another device is refused, and so is a copy between two devices whose pool or virtual memory is not open to "
        "the other.",
        backends=_HOST,
    ),
    Clause(
        "HOST-23",
        "Captures of the C interface obey the vendors' rules: captured work is counted and does not run, what a mode "
        "forbids is refused and makes the capture invalid, and a capture ends on the stream and the thread on which it "
        "began, with all streams that joined it joined again.",
        backends=_HOST,
    ),
    Clause(
        "HOST-24",
        "Within check() every two copies, fills, prefetches, allocations and frees of the same memory that nothing "
        "orders are found: what they do to each other, the first bytes that both touch, and of each its call, its line "
        "and its stream. A declared use orders, and is none of these itself.",
        backends=_HOST,
    ),
    Clause(
        "HOST-25",
        "check() reports nothing that is ordered: by one stream, by waits and events, by the default stream's rule, by "
        "what the host has waited for or was told.",
        backends=_HOST,
    ),
    Clause(
        "HOST-26",
        "Findings are counted by their two places and belong to the checks that were open; check() raises OrderError "
        "at its end, and hides no exception. With PORTAMEM_CHECK=1 a whole program is checked, and told on standard "
        "error.",
        backends=_HOST,
    ),
    Clause(
        "HOST-27",
        "No call of portamem changes the capture mode of its thread, whatever that is.",
        backends=_HOST,
    ),
    Clause(
        "HOST-28",
        "A thread's own default stream goes with the thread, once its work has run: no thread of the runtime stays.",
        backends=_HOST,
    ),
    Clause(
        "HOST-29",
        "It has what a GPU's runtime may lack: pools whose thresholds are kept and obeyed, managed memory, "
        "registration, capture. No clause about these is excused by a capability.",
        backends=_HOST,
    ),
    Clause(
        "HOST-30",
        "In a process with AddressSanitizer a pool says that it is checked, and a touch of its memory that is in no "
        "live buffer, or behind the end of one, is reported.",
        backends=_HOST,
    ),
)
