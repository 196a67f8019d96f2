# SPDX-License-Identifier: MIT
"""Records of what functions and blocks of a program allocate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from portamem.compat.rmm._counters import counting_resource
from portamem.compat.rmm._counts import Statistics

if TYPE_CHECKING:
    from typing_extensions import Self

    from portamem.compat.rmm.mr import StatisticsResourceAdaptor

P = ParamSpec("P")
T = TypeVar("T")


class ProfilerRecords:
    """The records that profilers add to, by name. Thread-safe."""

    @dataclass
    class MemoryRecord:
        """The memory that one function or block has allocated."""

        num_calls: int = 0
        """How often it has run."""
        memory_total: int = 0
        """Bytes that it has allocated in all."""
        memory_peak: int = 0
        """The most bytes that one run of it had out at once."""

        def add(self, memory_total: int, memory_peak: int) -> None:
            """Adds a run, with its bytes in all and at once."""
            self.num_calls += 1
            self.memory_total += memory_total
            self.memory_peak = max(self.memory_peak, memory_peak)

    def __init__(self) -> None:
        """Makes records of nothing."""
        self._lock = threading.RLock()  # a collection of garbage may come back here
        self._records: dict[str, ProfilerRecords.MemoryRecord] = {}

    def add(self, name: str, data: Statistics) -> None:
        """Adds a run of ``name`` with what its counters have counted."""
        with self._lock:
            record = self._records.setdefault(name, ProfilerRecords.MemoryRecord())
            record.add(memory_total=data.total_bytes, memory_peak=data.peak_bytes)

    @property
    def records(self) -> dict[str, MemoryRecord]:
        """A copy of the records, by name."""
        with self._lock:
            return {name: replace(record) for name, record in list(self._records.items())}

    def report(self, ordered_by: Literal["num_calls", "memory_peak", "memory_total"] = "memory_peak") -> str:
        """The records as a table, the largest ``ordered_by`` first. Raises ValueError for a column that is none."""
        if ordered_by not in ("num_calls", "memory_peak", "memory_total"):
            raise ValueError(f"ordered_by is num_calls, memory_peak or memory_total, not {ordered_by!r}")
        title = f"Memory profile, ordered by {ordered_by}"
        found = self.records
        if not found:
            return f"{title}\n\nNo data: nothing was profiled, or statistics are not enabled"
        rows = sorted(found.items(), key=lambda item: int(getattr(item[1], ordered_by)), reverse=True)
        lines = [f"{'calls':>8} {'peak bytes':>16} {'total bytes':>16}  where"]
        lines += [f"{r.num_calls:>8,} {r.memory_peak:>16,} {r.memory_total:>16,}  {name}" for name, r in rows]
        return "\n".join((title, "", *lines))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.records})"

    def __str__(self) -> str:
        return self.report()


default_profiler_records = ProfilerRecords()
"""The records of profilers that name no other."""


class ProfilerContext:
    """A decorator of functions, and a context manager of blocks, that records what they allocate."""

    def __init__(self, records: ProfilerRecords, name: str) -> None:
        """Makes a profiler that adds to ``records`` under ``name``; "" is the function's own name and place."""
        self._records = records
        self._name = name
        self._entered: list[StatisticsResourceAdaptor | None] = []

    def __call__(self, func: Callable[P, T]) -> Callable[P, T]:
        """``func`` with its allocations recorded, at each call."""
        name = self._name or _get_descriptive_name_of_object(func)

        @wraps(func)
        def profiled(*args: P.args, **kwargs: P.kwargs) -> T:
            with ProfilerContext(self._records, name):
                return func(*args, **kwargs)

        return profiled

    def __enter__(self) -> Self:
        """Puts new counters on the current resource's stack. Raises ValueError for a block without a name."""
        if not self._name:
            raise ValueError("a block that is profiled has a name: with profiler(name=...)")
        counting = counting_resource()
        if counting is not None:
            counting.push_counters()
        self._entered.append(counting)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Takes the topmost counters off the resource that had them put on, and records them. Nothing is recorded where
        statistics were not enabled when the block began."""
        counting = self._entered.pop()
        if counting is not None:
            self._records.add(self._name, counting.pop_counters())


def profiler(*, records: ProfilerRecords = default_profiler_records, name: str = "") -> ProfilerContext:
    """A decorator or context manager that records what a function or block allocates, in the peak and in all, while
    statistics are enabled. Otherwise it does nothing.

    ``name`` is required for a block; of a function it is by default its file, line and name.
    """
    return ProfilerContext(records, name)


def _get_descriptive_name_of_object(obj: Any) -> str:
    """File, line and name of a function."""
    import inspect

    found = inspect.unwrap(obj)
    return f"{inspect.getfile(found)}:{inspect.getsourcelines(found)[1]}({found.__qualname__})"
