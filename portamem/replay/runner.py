# SPDX-License-Identifier: MIT
"""Runs a plan: each recorded thread is a thread, and they take turns as they did."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from time import perf_counter_ns
from typing import Any

from portamem.errors import OutOfMemoryError
from portamem.replay.log import Log
from portamem.replay.plan import Plan, Step
from portamem.replay.target import Target


class ReplayError(Exception):
    """A call that was made when the log was written and cannot be made now."""


@dataclass
class Result:
    """The outcome of a replay. Times are nanoseconds of single calls, as Python sees them."""

    allocate: array[int] = field(default_factory=lambda: array("Q"))
    free: array[int] = field(default_factory=lambda: array("Q"))
    records: int = 0
    failures: int = 0
    """Allocations that were refused now, and were not then."""
    refused_again: int = 0
    """Allocations that were refused then and now."""
    granted: int = 0
    """Allocations that were refused then, and not now: given back at once."""
    first_failure: str = ""
    live: int = 0
    peak_live: int = 0
    seconds: float = 0.0


def run(log: Log, plan: Plan, target: Target, advance: Callable[[int], None] = lambda count: None) -> Result:
    """Makes the plan's calls. ReplayError, with the line of the log, for one that cannot be made."""
    for device in sorted({step.device for step in plan.steps}):
        _checked(0, partial(target.resource, device))
    if plan.released_line and target.wants_release:
        raise ReplayError(
            f"line {plan.released_line}: a call on a MonotonicMemoryResource, whose release() is in no log, and "
            f"{target.name} gives nothing back without it: replay against a resource whose memory goes back when it is "
            "freed"
        )
    replay = _Replay(log, plan, target, advance)
    target.start()
    begin = perf_counter_ns()
    replay.run()
    replay.result.seconds = (perf_counter_ns() - begin) / 1e9
    return replay.result


class _Replay:
    def __init__(self, log: Log, plan: Plan, target: Target, advance: Callable[[int], None]) -> None:
        self.result = Result()
        self._log = log
        self._target = target
        self._advance = advance
        self._buffers: list[Any] = [None] * plan.slots
        self._turns = [(thread, list(steps)) for thread, steps in groupby(plan.steps, key=lambda s: s.call.thread)]
        # Each thread, by its number in the log, waits for its turns: what it did without a break is one.
        self._go = {thread: threading.Semaphore(0) for thread, _ in self._turns}
        self._indices: dict[int, list[int]] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._done = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        if not self._turns:
            return
        for index, (thread, _) in enumerate(self._turns):
            self._indices.setdefault(thread, []).append(index)
        self._pass_on(0)
        self._done.wait()
        for each in self._threads.values():
            each.join()
        for buffer in self._buffers:
            if buffer is not None:
                buffer.close()
        if self._error is not None:
            raise self._error

    def _pass_on(self, index: int) -> None:
        """Lets the thread of a turn take it. A thread begins with its first one, as it may have done."""
        if index == len(self._turns):
            self._done.set()
            return
        thread = self._turns[index][0]
        self._go[thread].release()
        if thread not in self._threads:
            self._threads[thread] = threading.Thread(target=self._work, args=(thread,), daemon=True)
            self._threads[thread].start()

    def _work(self, thread: int) -> None:
        try:
            for index in self._indices[thread]:
                self._go[thread].acquire()
                if self._error is not None:
                    return
                self._take_turn(self._turns[index][1])
                self._pass_on(index + 1)
        except BaseException as error:
            self._error = error
            for go in self._go.values():
                go.release()
            self._done.set()

    def _take_turn(self, steps: list[Step]) -> None:
        for step in steps:
            {"alloc": self._allocate, "free": self._free, "record": self._record}[step.call.event](step)
        self._advance(len(steps))

    def _allocate(self, step: Step) -> None:
        call, result = step.call, self.result
        resource = self._target.resource(step.device)
        stream = self._stream(step)
        begin = perf_counter_ns()
        try:
            buffer = resource.allocate(call.size, stream=stream, alignment=call.alignment)
        except OutOfMemoryError as error:
            if call.error is None:
                result.failures += 1
                result.first_failure = result.first_failure or f"line {call.line}: {error}"
            else:
                result.refused_again += 1
            return
        except Exception as error:
            if call.error is not None:
                result.refused_again += 1
                return
            raise ReplayError(f"line {call.line}: {call.size} bytes cannot be allocated: {error}") from error
        result.allocate.append(perf_counter_ns() - begin)
        if call.error is not None:
            result.granted += 1
            buffer.close()
            return
        self._buffers[step.slot] = buffer
        result.live += call.size
        result.peak_live = max(result.peak_live, result.live)

    def _free(self, step: Step) -> None:
        buffer = self._buffers[step.slot]
        if buffer is None:
            return  # it was refused
        stream = self._stream(step)
        begin = perf_counter_ns()
        _checked(step.call.line, lambda: buffer.close(stream=stream))
        self.result.free.append(perf_counter_ns() - begin)
        self._buffers[step.slot] = None
        self.result.live -= step.call.size

    def _record(self, step: Step) -> None:
        buffer = self._buffers[step.slot]
        if buffer is None:
            return
        stream = self._stream(step)
        _checked(step.call.line, lambda: buffer.record_stream(stream))
        self.result.records += 1

    def _stream(self, step: Step) -> Any:
        stream = self._log.streams[step.call.stream]
        return _checked(step.call.line, lambda: self._target.stream(stream))


def _checked(line: int, call: Callable[[], Any]) -> Any:
    """Makes a call. ReplayError for whatever it raises."""
    try:
        return call()
    except Exception as error:
        raise ReplayError(f"line {line}: {error}" if line else str(error)) from error
