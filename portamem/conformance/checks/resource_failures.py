# SPDX-License-Identifier: MIT
"""Shows what each adaptor's figures are after a call below it has failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.kinds_over import ADAPTORS
from portamem.conformance.kit.memory import KIB, MIB, pattern
from portamem.conformance.kit.threads import on_a_thread
from portamem.errors import Error, OutOfMemoryError

NBYTES = 64 * KIB


class _MineError(Exception):
    """An exception of the program's own."""


def _raises(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


#: Ways in which the program's function fails, each with the exception that the caller of the adaptor sees.
WAYS: dict[str, tuple[Callable[[], None], type[BaseException]]] = {
    "no memory": (_raises(MemoryError("none left")), MemoryError),
    "null": (lambda: None, OutOfMemoryError),
    "an error of the runtime": (_raises(OSError("the driver is gone")), OSError),
    "an error of the program": (_raises(_MineError("a mistake")), _MineError),
    "not an Exception": (_raises(SystemExit(3)), SystemExit),
}


class _Below:
    """A CallbackMemoryResource whose functions fail while they are told to."""

    def __init__(self, env: Env, kind: str) -> None:
        self.memory = env.resource(kind)
        self.way: Callable[[], None] | None = None
        self.resource = env.pm.CallbackMemoryResource(
            self._allocate,
            self._deallocate,
            device=env.device,
            kind=kind,
            host_accessible=self.memory.is_host_accessible,
            stream_ordered=False,
        )

    def _allocate(self, nbytes: int, stream: Any) -> int:
        if self.way is not None:
            self.way()
            return 0
        address: int = self.memory.allocate(nbytes, stream=stream).release()
        return address

    def _deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        if self.way is not None:
            self.way()
            return
        self.memory.deallocate(address, nbytes, stream=stream)


def _figures(resource: Any) -> dict[str, Any]:
    """All that an adaptor says of what went through it, but for how many allocations were refused."""
    found = {name: getattr(resource, name, None) for name in ("live_buffers", "live_bytes", "allocated", "available")}
    if hasattr(resource, "counts"):
        each = {"": resource.counts, **resource.by_tag, **{str(key): it for key, it in resource.by_thread.items()}}
        for name, counts in each.items():
            found[f"current of {name!r}"] = (counts.current_bytes, counts.current_count)
            found[f"peak of {name!r}"] = (counts.peak_bytes, counts.peak_count)
            found[f"total of {name!r}"] = (counts.total_bytes, counts.total_count)
    if hasattr(resource, "outstanding"):
        found["outstanding"] = [(each.ptr, each.nbytes) for each in resource.outstanding()]
    return found


def _stacks(env: Env) -> list[tuple[str, _Below, list[Any]]]:
    """Each adaptor alone over functions that can fail, and each over and under one that counts."""
    made = []
    for cls, make in ADAPTORS.items():
        kind = "managed" if cls == "PrefetchAdaptor" else "device"
        for above in ("", "StatisticsAdaptor"):
            below = _Below(env, kind)
            stack = [make(env.pm, below.resource)]
            if above:
                stack.append(ADAPTORS[above](env.pm, stack[0]))
            made.append((f"{above} over {cls}" if above else cls, below, stack))
        if cls != "StatisticsAdaptor":
            below = _Below(env, kind)
            counting = env.pm.StatisticsAdaptor(below.resource)
            made.append((f"{cls} over StatisticsAdaptor", below, [counting, make(env.pm, counting)]))
    return made


@check("RESOURCE-23")
def an_allocation_that_failed_counts_as_refused(env: Env) -> None:
    for name, below, stack in _stacks(env):
        with env.pm.tag("held"):
            kept = stack[-1].allocate(NBYTES)
        for way, (fail, seen) in WAYS.items():
            before, failed = [_figures(each) for each in stack], [_failed(each) for each in stack]
            below.way = fail
            with refused(seen), env.pm.tag("held"):
                stack[-1].allocate(2 * NBYTES)
            below.way = None
            expect_equal([_figures(each) for each in stack], before, f"figures of {name} after {way}")
            wanted = [None if count is None else count + 1 for count in failed]
            expect_equal([_failed(each) for each in stack], wanted, f"refusals of {name} after {way}")
        env.write(kept, pattern(NBYTES))
        expect_bytes(env.read(kept), pattern(NBYTES), f"memory of {name} after all refusals")
        _end(name, below, stack, kept)


@check("RESOURCE-23")
def a_free_that_failed_has_not_happened(env: Env) -> None:
    for name, below, stack in _stacks(env):
        kept = stack[-1].allocate(NBYTES)
        env.write(kept, pattern(NBYTES))
        for way, (fail, seen) in WAYS.items():
            if way == "null":  # a function that frees answers nothing
                continue
            before = [_figures(each) for each in stack]
            below.way = fail
            with refused(seen):
                kept.close()
            below.way = None
            expect_equal([_figures(each) for each in stack], before, f"figures of {name} after {way} in a free")
            expect(not kept.is_closed, f"a buffer of {name} is closed, and {way} kept its memory out")
        expect_bytes(env.read(kept), pattern(NBYTES), f"memory of {name} after frees that failed")
        _end(name, below, stack, kept)


@check("RESOURCE-23")
def a_free_that_was_refused_has_not_happened(env: Env) -> None:
    stream = env.stream()
    for name, below, stack in _stacks(env):
        resource = stack[-1]
        kept = resource.allocate(NBYTES, stream=stream)
        before = [_figures(each) for each in stack]
        wrong = [(1 << 40, NBYTES), (kept.handle + 256, NBYTES - 256)]
        for address, nbytes in wrong:
            with refused(ValueError, Error):
                resource.deallocate(address, nbytes, stream=stream)
            expect_equal([_figures(each) for each in stack], before, f"figures of {name} after a free of {address:#x}")
        _end(name, below, stack, kept)


def _failed(resource: Any) -> int | None:
    return resource.counts.failed_count if hasattr(resource, "counts") else None


def _end(name: str, below: _Below, stack: list[Any], kept: Any) -> None:
    """Everything goes back, and nothing is counted as out."""
    kept.close()
    for each in reversed(stack):
        out = {what: figure for what, figure in _figures(each).items() if what.startswith(("live", "current"))}
        expect(all(figure in (0, (0, 0)) for figure in out.values()), f"of {name} there is still out: {out}")
        each.close()
    below.resource.close()
    expect_equal(below.memory.live_buffers, 0, f"buffers of the memory below {name}")


@check("RESOURCE-24")
def peaks_start_again_for_each_tag_and_thread(env: Env) -> None:
    with env.pm.StatisticsAdaptor(env.resource("device")) as adaptor:

        def work() -> tuple[Any, int]:
            with env.pm.tag("theirs"):
                adaptor.allocate(5 * NBYTES).close()
                return adaptor.allocate(NBYTES), threading.get_native_id()

        theirs, number = on_a_thread(work)
        with env.pm.tag("mine"):
            adaptor.allocate(3 * NBYTES).close()
            mine = adaptor.allocate(2 * NBYTES)
        own = threading.get_native_id()
        tags = {tag: adaptor.by_tag[tag].peak_bytes for tag in ("theirs", "mine")}
        expect_equal(tags, {"theirs": 5 * NBYTES, "mine": 3 * NBYTES}, "peaks by tag")
        threads = {thread: adaptor.by_thread[thread].peak_bytes for thread in (number, own)}
        expect_equal(threads, {number: 5 * NBYTES, own: 3 * NBYTES}, "peaks by thread")
        adaptor.reset_peak()
        for by in (adaptor.by_tag, adaptor.by_thread, {"all": adaptor.counts}):
            for key, counts in by.items():
                peak, current = (counts.peak_bytes, counts.peak_count), (counts.current_bytes, counts.current_count)
                expect_equal(peak, current, f"the peak of {key} after a reset")
        expect_equal(adaptor.by_tag["theirs"].total_bytes, 6 * NBYTES, "bytes in all after a reset of peaks")
        with env.pm.tag("mine"):
            more = adaptor.allocate(NBYTES)
        found = {tag: adaptor.by_tag[tag].peak_bytes for tag in ("theirs", "mine")}
        expect_equal(found, {"theirs": NBYTES, "mine": 3 * NBYTES}, "peaks by tag, of what came after the reset")
        for buf in (theirs, mine, more):
            buf.close()


@check("RESOURCE-25")
def large_alignments_reach_through(env: Env) -> None:
    stream = env.stream()
    for cls, make in ADAPTORS.items():
        below = env.resource("managed" if cls == "PrefetchAdaptor" else "device")
        with make(env.pm, below) as adaptor, refused(ValueError, saying="align"):
            adaptor.allocate(NBYTES, alignment=128 * KIB)
        with env.pm.PoolMemoryResource(below) as pool, make(env.pm, pool) as adaptor:
            for alignment in (128 * KIB, MIB, 4 * MIB):
                bufs = [adaptor.allocate(nbytes, stream=stream, alignment=alignment) for nbytes in (1, 3000, 200 * KIB)]
                for buf in bufs:
                    expect_equal(buf.handle % alignment, 0, f"{cls}: offset from {alignment} bytes")
                    env.pm.copy(buf, pattern(buf.nbytes), stream=stream)
                out = (adaptor.live_buffers, adaptor.live_bytes)
                expect_equal(out, (3, sum(buf.nbytes for buf in bufs)), f"{cls}: buffers and bytes out")
                stream.synchronize()
                for buf in bufs:
                    expect_bytes(env.read(buf), pattern(buf.nbytes), f"{cls}: memory aligned to {alignment}")
                    buf.close()
                expect_equal((adaptor.live_buffers, adaptor.live_bytes), (0, 0), f"{cls}: what is out")
        expect_equal(below.live_buffers, 0, f"{cls}: buffers of the memory below")
