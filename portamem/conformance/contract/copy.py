# SPDX-License-Identifier: MIT
"""Copies and fills."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall
from portamem.conformance.contract.pinned import REGISTRATION_UNTOLD

MAY_BLOCK = Shortfall(
    "both",
    "a copy from or to pageable memory, and one between two hosts, may block its caller",
    "allowed",
    "CUDA runtime API, API synchronization behavior; hip_runtime_api.h, hipMemcpyAsync",
)

CLAUSES = (
    Clause(
        "COPY-01",
        "Between any two kinds of memory a copy moves every byte, in each direction, blocking or on a stream.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-02",
        "Objects with the buffer protocol (bytes, bytearray, memoryview, NumPy arrays of any shape and type, also of "
        "the types that have no such buffer, as times), with __array_interface__ or with __dlpack__ are an end of a "
        "copy like any memory; so are two of them.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-03",
        "copy(dst, src), dst.copy_from(src) and src.copy_to(dst) do the same. With a stream they answer an Event that "
        "is done when the bytes are there, without one they answer None and the bytes are there.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-04",
        "A copy or a fill writes exactly the bytes of its target, at any offset and of any length, and no byte beside "
        "them.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-05",
        "Source and target must have the same size, and must not overlap: ValueError, before a byte is written. Parts "
        "of one buffer that only touch are fine.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-06",
        "What cannot be an end of a copy is refused in words: TypeError for objects without memory and for memory "
        "that holds references to Python objects, ValueError for a target that is read-only or whose elements share "
        "memory, for masked arrays and for two ends that are both not C-contiguous. A read-only source is fine.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-07",
        "A copy or a fill without a stream runs behind all work declared on its memory, and is done on return.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-08",
        "On a stream, copies and fills of memory that is not pageable return at once and run in that stream's order.",
        "memory of the runtime",
        shortfalls=(MAY_BLOCK,),
    ),
    Clause(
        "COPY-09",
        "A copy on a stream keeps both its ends as long as it uses them, also Python objects: to drop them, or to "
        "record the copy's event again, disturbs nothing, and they are let go afterwards.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-10",
        "A copy or a fill on another stream than the memory's own is a declared use: it sees what was queued on the "
        "memory's stream before it, and the memory goes back only behind it.",
        "stream-ordered resources",
    ),
    Clause(
        "COPY-11",
        "Many megabytes arrive whole, at any offset and of any length, from ordinary host memory and from pinned, and "
        "over two streams that take turns.",
        "device memory of the runtime",
    ),
    Clause(
        "COPY-12",
        "A fill sets every byte to its value, 0 to 255; another number raises ValueError, and what is no int "
        "TypeError.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-13",
        "Memory of one device is copied to another's, blocking or on a stream of either.",
        "every resource of the runtime",
        shortfalls=(
            Shortfall(
                "both",
                "memory of a driver's pool, and virtual memory, is opened to another device only when told to",
                "allowed",
                "CUDA runtime API, cudaMemPoolSetAccess; CUDA driver API, cuMemSetAccess",
            ),
        ),
    ),
    Clause(
        "COPY-14",
        "copy_2d copies `height` rows of `width` bytes between any pitches, there and back, blocking or on a stream; a "
        "PitchedBuffer gives its own width, height and pitch, other memory has no padding.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-15",
        "copy_2d and fill_2d leave the padding between rows, and all rows beyond, as they were.",
        "plain device memory",
    ),
    Clause(
        "COPY-16",
        "Rows that do not fit are refused before a byte is written: ValueError for a pitch below the width, more rows "
        "than there are, ends that overlap, numbers that are negative or beyond counting, TypeError where neither "
        "width nor height is known. Ends of one pitch may lie between each other's rows if they share no byte; ends of "
        "different pitches may not.",
        "plain device memory",
    ),
    Clause(
        "COPY-17",
        "fill_2d sets every byte of the rows, blocking or on a stream, and takes pitched memory alone.",
        "plain device memory",
    ),
    Clause(
        "COPY-18",
        "Registered memory is an end of a copy, on a stream without waiting.",
        shortfalls=(REGISTRATION_UNTOLD,),
    ),
    Clause(
        "COPY-19",
        "Memory of another backend that only its device reaches is refused with TypeError that sends the copy through "
        "host memory.",
    ),
    Clause(
        "COPY-20",
        "A copy or a fill whose wrong size would reach far beyond an allocation is refused with InvalidValue; "
        "nothing is written, and later work is not disturbed.",
        # NVIDIA documents no such refusal: it is measured, on an H200 with CUDA 13.0.
        "plain device memory",
    ),
    Clause(
        "COPY-21",
        "Memory that a copy has kept is let go soon after the copy has happened, also where its stream is "
        "not used again.",
        "plain memory of the runtime",
    ),
    Clause(
        "COPY-22",
        "copy_3d copies `depth` slices of `height` rows of `width` bytes between volumes of any pitch, with any number "
        "of rows from one slice to the next, there and back, blocking or on a stream. A PitchedBuffer gives its own "
        "width and pitch; without them there is no padding.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-23",
        "copy_3d leaves the padding between rows and between slices, and all that lies around the box, as they were. A "
        "box without width, height or depth changes nothing, whatever its pitches.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-24",
        "A box that does not fit is refused with ValueError before a byte is written: a pitch below the width, slices "
        "lower than the height, more rows or slices than there are, numbers that are negative or beyond counting. "
        "Without a height, a depth, or a known width it is a TypeError.",
        "plain device memory",
    ),
    Clause(
        "COPY-25",
        "Rows and boxes are copied within their own volume, also to between each other's rows, where both ends are "
        "laid out alike and share no byte. Where they share one, or lie within each other's range and are laid out "
        "differently, it is a ValueError before a byte is written.",
        "plain device memory",
    ),
    Clause(
        "COPY-26",
        "On a stream, copy_3d of memory that is not pageable returns at once, runs in that stream's order, and keeps "
        "both its ends until it has happened.",
        "memory of the runtime",
        shortfalls=(MAY_BLOCK,),
    ),
    Clause(
        "COPY-27",
        "What a copy used goes back behind that copy. Once the copy's event was waited for, memory of its dropped ends "
        "is there for an allocation up to a limit, a registration can be made again, and a bytearray resized.",
        "plain memory of the runtime",
    ),
    Clause(
        "COPY-28",
        "While the ends of a finished copy wait to go back, copies, fills, marks and host functions are queued at "
        "once, and a buffer is dropped at once, whatever the stream holds.",
        "plain memory of the runtime",
    ),
    Clause(
        "COPY-29",
        "Host memory with strides, such as a slice of a NumPy array or a transposed one, is an end of a copy: its "
        "elements move in C order, and none of the bytes between them. On return, also with a stream, behind whose "
        "work the copy is, a source has been read, and the bytes of a target are there.",
        "every resource of the runtime",
    ),
    Clause(
        "COPY-30",
        "Many megabytes of host memory with strides, and of rows and boxes, arrive whole.",
        "device memory of the runtime",
    ),
)
