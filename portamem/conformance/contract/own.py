# SPDX-License-Identifier: MIT
"""Ownership and exports."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "OWN-01",
        "buf[a:b] is a buffer over those bytes, as Python's slices count them: what is written through either is seen "
        "through both. A step raises ValueError, and what is no slice TypeError.",
        "every resource",
    ),
    Clause(
        "OWN-02",
        "A sub-view keeps the memory after its buffer is dropped; the memory goes back with the last one.",
        "every resource",
    ),
    Clause(
        "OWN-03",
        "While sub-views, Views, Python buffers or DLPack tensors live, `exports` counts them and close() raises "
        "BufferError that tells how many; the buffer stays usable, and closes when they are gone.",
        "every resource",
    ),
    Clause(
        "OWN-04",
        "Leaving a with block by an exception never hides it: under an export the memory goes with the last export. "
        "Without an exception the end of the block raises BufferError, as close() does.",
        "every resource",
    ),
    Clause(
        "OWN-05",
        "A resource with live buffers refuses to close with BufferError that names their number and bytes, and stays "
        "usable; in a with block left by an exception it stays open and hides nothing.",
        "every resource",
    ),
    Clause(
        "OWN-06",
        "A buffer keeps its resource and its stream alive and usable, and may be closed after its stream. One that is "
        "gone keeps neither.",
        "every resource",
    ),
    Clause(
        "OWN-07",
        "from_handle makes a Buffer of others' memory: it says what the runtime knows of the address, is never freed, "
        "and its owner is kept until it is closed.",
        "every resource",
    ),
    Clause(
        "OWN-08",
        "The owner of others' memory is let go only when all work declared on that memory has run.",
    ),
    Clause(
        "OWN-09",
        "A View has the type, shape, strides and offset asked for; its parts, transposes and reshapes are the same "
        "memory, and what does not fit is refused with ValueError before anything is touched.",
        "every resource",
    ),
    Clause(
        "OWN-10",
        "A View is an export: it keeps the memory alive, also without its buffer, until it is closed; a closed one "
        "refuses every use with ValueError.",
        "every resource",
    ),
    Clause(
        "OWN-11",
        "A View copies and fills all of its elements and no byte beside them, and to_numpy is a copy that is done on "
        "return, also on a stream.",
        "every resource",
    ),
    Clause(
        "OWN-12",
        "memoryview and numpy.frombuffer of a buffer are its own memory, and of a View with its type, shape and "
        "strides; each is an export, and keeps the memory after the buffer is dropped.",
        "host-accessible memory",
    ),
    Clause(
        "OWN-13",
        "__array_interface__ is a View's alone, describes it, and is there where the host reaches the memory and "
        "nowhere else.",
        "every resource",
    ),
    Clause(
        "OWN-14",
        "__cuda_array_interface__ (version 3) is a View's alone, describes it, and is there where a device reaches the "
        "memory; it never names stream 0.",
        "every resource",
        backends=("cuda", "hip"),
        shortfalls=(
            Shortfall(
                "amd",
                "the protocol has no number for HIP's default stream",
                "bridged",
                "Numba, CUDA Array Interface version 3; mpi4py/mpi4py#163",
            ),
        ),
    ),
    Clause(
        "OWN-15",
        "The stream that __cuda_array_interface__ names is behind all work declared on the memory.",
        backends=("cuda", "hip"),
    ),
    Clause(
        "OWN-16",
        "Memory of the CPU runtime has no __cuda_array_interface__: consumers would take it for a GPU's.",
        "every resource",
        backends=("host",),
    ),
    Clause(
        "OWN-17",
        "A DLPack tensor describes its View: address, device, type, shape and strides in elements; of the old struct "
        "or of the newest version that both sides know.",
        "every resource",
        shortfalls=(
            Shortfall(
                "amd",
                "DLPack has no name for ROCm's managed memory: it is given as the device's",
                "bridged",
                "dlpack.h 1.3, DLDeviceType",
            ),
        ),
    ),
    Clause(
        "OWN-18",
        "Every element type that DLPack knows goes out and comes in as itself. One of less than a byte has a byte for "
        "each element, which DLPack says from version 1.1 on; for older versions it is refused with BufferError.",
    ),
    Clause(
        "OWN-19",
        "A DLPack capsule is an export until it is dropped, or until the consumer that took it calls the deleter, "
        "once, on any thread, with the GIL or without.",
        "host-accessible memory",
    ),
    Clause(
        "OWN-20",
        "A DLPack tensor keeps the memory after its View and buffer are dropped.",
        "host-accessible memory",
    ),
    Clause(
        "OWN-21",
        "dl_device may name every device that the memory is, without a copy, and the CPU with one; anything else, and "
        "what copy=False forbids, raises BufferError that says what the memory is.",
        "every resource",
    ),
    Clause(
        "OWN-22",
        "copy=True gives other memory with the same contents, marked as copied, which goes back when the consumer lets "
        "go; later writes to the source do not show in it.",
        "every resource",
    ),
    Clause(
        "OWN-23",
        "An export to the CPU waits for all work declared on the memory, unless the consumer says stream=-1.",
        "pinned memory",
    ),
    Clause(
        "OWN-24",
        "An export to a consumer's stream makes that stream wait for all work declared on the memory, and the caller "
        "does not wait.",
        backends=("cuda", "hip"),
    ),
    Clause(
        "OWN-25",
        "A stream number that means nothing for the device, and arguments of the wrong type, are refused in words; so "
        "is a closed View.",
        "host-accessible memory",
        shortfalls=(
            Shortfall(
                "both",
                "stream 0 is ambiguous on CUDA and the default stream on ROCm, where 1 and 2 mean nothing",
                "bridged",
                "Python array API standard, __dlpack__",
            ),
        ),
    ),
    Clause(
        "OWN-26",
        "from_dlpack makes a View of any producer's tensor where it lies, old struct or new, with or without strides; "
        "the producer's deleter is called once, when the last holder here has let go of the memory.",
    ),
    Clause(
        "OWN-27",
        "A tensor that is of no use here (with a negative stride, of elements without a name here) is refused with "
        "ValueError, and one that is malformed in any field, of a newer major version or taken already with "
        "BufferError, before anything that it points to is used; its deleter is called once.",
    ),
    Clause(
        "OWN-28",
        "What is no producer is refused with TypeError, an answer that is no tensor with BufferError; a producer's own "
        "exception passes through, and memory that this backend cannot reach is refused before the producer's "
        "__dlpack__ is called.",
    ),
    Clause(
        "OWN-29",
        "The deleter of a producer's tensor is called only when all work declared on the memory has run.",
    ),
    Clause(
        "OWN-30",
        "A producer of device memory is told the stream that was named, or the default one, by DLPack's number for it.",
        backends=("cuda", "hip"),
    ),
    Clause(
        "OWN-31",
        "Exports may be made and let go by many threads at once; in the end none is counted.",
        "host-accessible memory",
    ),
    Clause(
        "OWN-32",
        "Buffers are made by resources and from_handle alone, and an object whose __init__ never ran is refused with "
        "TypeError.",
    ),
    Clause(
        "OWN-33",
        "Memory that a producer calls read-only becomes a read-only View, as does a capsule of before DLPack 1, which "
        "cannot tell: it and its buffer and their parts say so to every consumer, go into no capsule that cannot say "
        "it, and refuse with ValueError to be the target of a copy or a fill.",
    ),
    Clause(
        "OWN-34",
        "A producer whose own class has DLPack's C exchange table is taken by the table, behind the stream that the "
        "table names, and by its __dlpack__ where the table fails or is of no use, and where the object says that it "
        "needs gradients or is a conjugate view. A negative view is refused with BufferError.",
    ),
    Clause(
        "OWN-35",
        "The classes of Views and Buffers have DLPack's C exchange table: it gives and lends their tensors, behind "
        "their work on the default stream, or for the host after declared work; takes a consumer's tensor over as a "
        "View; and allocates memory of the host and of the device. A failure sets an exception, or calls the "
        "consumer's error function.",
    ),
    Clause(
        "OWN-36",
        "Memory with strides goes out with them (the buffer protocol, array interfaces, DLPack) and comes in with "
        "them; a copy, a fill or a reshape of it is refused with ValueError, a consumer that wants C order with "
        "BufferError, and no byte is touched.",
        "host-accessible memory",
    ),
    Clause(
        "OWN-37",
        "from_any takes Views, Buffers, DLPack producers, objects with an array interface and Python buffers where "
        "they lie, read-only ones as read-only Views, and keeps them; what gives no memory away is refused with "
        "TypeError.",
    ),
    Clause(
        "OWN-38",
        "A Buffer has DLPack's methods as its View of uint8 has them, and its tensor is an export of the Buffer. An "
        "array interface is a View's alone, because a consumer of one never says that it has let go.",
        "every resource",
    ),
    Clause(
        "OWN-39",
        "reallocate gives a Buffer another size in memory of the same resource: the first bytes keep their values, "
        "behind all work that was declared on the memory, and the old memory goes back behind the copy, or stays where "
        "it is.",
        "every resource",
    ),
    Clause(
        "OWN-40",
        "A Buffer with exports is not reallocated (BufferError), nor a sub-view, rows with a pitch, foreign memory or "
        "a closed Buffer (ValueError). Where a size cannot be had, the Buffer keeps its size and its bytes.",
        "every resource",
    ),
)
