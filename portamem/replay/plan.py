# SPDX-License-Identifier: MIT
"""Plans the replay of a log: each call with the allocation that it is about, checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from portamem.replay.log import Log, LogError, LoggedCall, LoggedResource


@dataclass(frozen=True, slots=True)
class Step:
    """A call to make again."""

    call: LoggedCall
    slot: int
    """The slot of the allocation: ``alloc`` fills it, ``free`` empties it."""
    device: int
    """The device of the resource that the allocation was made on."""


@dataclass
class Plan:
    steps: list[Step] = field(default_factory=list)
    skipped: int = 0
    """Calls that resources made of each other, and frees that were refused: they follow from others, or did nothing."""
    left: int = 0
    """Allocations that the program did not free."""
    slots: int = 0
    released_line: int = 0
    """The line of the first call on a resource that gives memory back by release(), which is in no log; 0: there is
    none."""


def plan(log: Log, only: int | None = None, backend: str | None = None) -> Plan:
    """The calls that the program itself made; with ``only``, all calls on that resource. Of several
    backends the calls on ``backend``.

    LogError for what no program can have done (a free of memory that is not out, or with another size), and for calls
    on several backends where none is named.
    """
    if only is not None and only not in log.resources:
        known = ", ".join(f"{resource.id} ({resource.cls})" for resource in log.resources.values()) or "none"
        raise ValueError(f"the log has no resource {only}: it has {known}")
    found = _Planner(log, only, backend).run()
    if backend is not None and not found.steps:
        others = sorted({log.resources[call.resource].backend for call in log.calls})
        raise ValueError(
            f"the log has no call of the program's on {backend}: it has calls on {' and '.join(others) or 'none'}"
        )
    return found


@dataclass(slots=True)
class _Live:
    call: LoggedCall
    slot: int
    """-1: not run again."""


class _Planner:
    def __init__(self, log: Log, only: int | None, backend: str | None) -> None:
        self._log = log
        self._only = only
        self._backend = backend
        self._seen = ""  # the backend of the steps
        self._plan = Plan()
        self._live: dict[tuple[int, int], list[_Live]] = {}  # by resource and address; of 0 bytes there may be several

    def run(self) -> Plan:
        for call in self._log.calls:
            self._look_for_release(call)
            if call.event == "alloc":
                self._allocate(call)
            elif call.error is not None:
                self._plan.skipped += 1  # the memory stayed where it was
            else:
                self._use(call)
        self._plan.left = sum(live.slot >= 0 for each in self._live.values() for live in each)
        return self._plan

    def _is_wanted(self, call: LoggedCall) -> bool:
        if self._backend is not None and self._of(call).backend != self._backend:
            return False
        return call.depth == 0 if self._only is None else call.resource == self._only

    def _of(self, call: LoggedCall) -> LoggedResource:
        return self._log.resources[call.resource]

    def _look_for_release(self, call: LoggedCall) -> None:
        if self._of(call).cls == "MonotonicMemoryResource" and self._only in (None, call.resource):
            self._plan.released_line = min(self._plan.released_line or call.line, call.line)

    def _allocate(self, call: LoggedCall) -> None:
        live = self._live.setdefault((call.resource, call.address), [])
        if call.error is None and call.address and live:
            raise LogError(
                call.line,
                f"resource {call.resource} gives address {call.address:#x} out, which it gave in line "
                f"{live[0].call.line} and which was not freed since",
            )
        slot = -1
        if self._is_wanted(call):
            slot = self._plan.slots
            self._plan.slots += 1
            self._step(call, slot)
        else:
            self._plan.skipped += 1
        if call.error is None:
            live.append(_Live(call, slot))

    def _use(self, call: LoggedCall) -> None:
        live = self._live.get((call.resource, call.address), [])
        if not live:
            what = "free" if call.event == "free" else "use on another stream"
            raise LogError(
                call.line,
                f"a {what} of address {call.address:#x}, which resource {call.resource} does not have out",
            )
        of = live[-1]
        if call.size != of.call.size:
            raise LogError(
                call.line,
                f"{call.size} bytes at {call.address:#x}, where line {of.call.line} allocated {of.call.size}",
            )
        if call.event == "free":
            live.pop()
        if of.slot < 0:
            self._plan.skipped += 1
        else:
            self._step(call, of.slot)

    def _step(self, call: LoggedCall, slot: int) -> None:
        of = self._of(call)
        self._seen = self._seen or of.backend
        if of.backend != self._seen:
            raise LogError(
                call.line,
                f"a call on {of.backend}, and the calls before are on {self._seen}: a replay is of one backend, so say "
                f"which (--from {of.backend} or --from {self._seen})",
            )
        self._plan.steps.append(Step(call, slot, of.device))
