# SPDX-License-Identifier: MIT
"""Threads, the GIL, the current device and the current resource."""

from __future__ import annotations

from portamem.conformance.contract.clause import Clause, Shortfall

CLAUSES = (
    Clause(
        "THREAD-01",
        "Threads that allocate, write, read and free at once, each on a stream of its own, read back what they wrote.",
        "every resource",
    ),
    Clause(
        "THREAD-02",
        "Memory that threads hold at once never overlaps, and no thread's writes show in another's.",
        "every resource",
    ),
    Clause(
        "THREAD-03",
        "Threads can share one stream, the default stream among them.",
    ),
    Clause(
        "THREAD-04",
        "Live buffers, live bytes and what portamem holds are right after any threads have allocated and freed, and "
        "memory of one thread can be freed by another.",
        "every resource",
    ),
    Clause(
        "THREAD-05",
        "A buffer that one thread closes while others use it or close it too is closed once; the others' work happens "
        "whole or is refused in words.",
        "every resource",
    ),
    Clause(
        "THREAD-06",
        "Streams can be made and closed by threads while memory is freed on them by others.",
        "stream-ordered resources",
    ),
    Clause(
        "THREAD-07",
        "An error of one thread is that thread's alone: the others' calls succeed meanwhile.",
    ),
    Clause(
        "THREAD-08",
        "Every call that may wait lets other Python threads run: waiting for streams, events and devices, copies and "
        "fills without a stream, Python buffers, closing memory, streams and registrations.",
    ),
    Clause("THREAD-09", "Memory that the garbage collector frees blocks no other thread, whatever it waits for."),
    Clause(
        "THREAD-10",
        "Host functions of several streams run while threads wait for those streams, each once, in the order of its "
        "stream.",
    ),
    Clause(
        "THREAD-11",
        "Every call leaves the calling thread's current device as it found it, whichever device it is about; a device "
        "that one thread makes current is not another thread's.",
        shortfalls=(
            Shortfall(
                "both",
                "calls are made on the thread's current device, whatever their arguments are of",
                "bridged",
                "CUDA runtime API and HIP runtime API, SetDevice",
            ),
        ),
    ),
    Clause(
        "THREAD-12",
        "Work with one device creates no context on another.",
        backends=("cuda", "hip"),
        shortfalls=(
            Shortfall(
                "nvidia",
                "setting the current device initialises a context on it, and most calls make one on device 0",
                "bridged",
                "CUDA 12.0 release notes, cudaSetDevice",
            ),
            Shortfall(
                "amd",
                "the runtime makes the contexts of all devices when it begins, and no call tells them apart: not shown",
                "allowed",
                "ROCm/clr hipamd/src/hip_context.cpp, init and hipDevicePrimaryCtxGetState",
            ),
        ),
    ),
    Clause(
        "THREAD-13",
        "Within using(resource), empty, zeros and asarray take memory from that resource; scopes nest, and end with "
        "their block, also by an exception.",
        "every resource",
    ),
    Clause(
        "THREAD-14",
        "A scope is of its thread, and of its resource's device: others see nothing of it. On a thread, each task has "
        "its own scopes; a thread that is given a context sees the scopes that were open in it.",
    ),
    Clause(
        "THREAD-15",
        "A scope keeps its resource alive and is read at allocation only: live memory goes back to where it came from.",
    ),
    Clause(
        "THREAD-16",
        "Without a scope there is a default resource for each device, the same for every thread. While the program "
        "sets none, portamem makes it, and no call can close it.",
    ),
    Clause(
        "THREAD-17",
        "using() takes an open resource of its own backend, and refuses anything else in words, with the scope as it "
        "was.",
    ),
    Clause(
        "THREAD-18",
        "What a signal handler of the program's raises, as for Ctrl-C, ends the wait that Python's first thread is in, "
        "before the work is done: of streams, events, devices, copies and fills without a stream, Python buffers, "
        "allocations that wait for memory, trim, close and a pool's end. The call can be made again, nothing is "
        "lost, and queued work still happens, to memory that is not given out before.",
    ),
    Clause(
        "THREAD-19",
        "A stream may be closed by one thread while others call it: each call is done, or refused in words as a closed "
        "stream's are; none reaches a destroyed handle, and no memory is lost. A thread that waits for the stream's "
        "work meanwhile goes on waiting.",
        "every resource",
    ),
    Clause(
        "THREAD-20",
        "set_default_resource stores the default of a device, for every thread and every module of the process: memory "
        "comes from it where no scope is open, and live memory goes back to where it came from. None sets back the "
        "resource that portamem makes, the same as before.",
        "every resource",
    ),
    Clause(
        "THREAD-21",
        "A set default is kept alive, and may be closed: then allocations without a scope are refused in words. A "
        "closed resource, another device's and anything that is no resource is refused, with the default as it was.",
    ),
    Clause(
        "THREAD-22",
        "PORTAMEM_DEFAULT names the resource that portamem makes: a pool over plain device memory, a memory pool of "
        "the driver, plain device memory, or a pool over managed memory. Any other word is refused, at the first use, "
        "with the words that there are.",
    ),
)
