# SPDX-License-Identifier: MIT
"""Runs the cases of a backend in worker processes, and sums up what came of each clause.

This process loads no runtime, unless it is asked to do all by itself. A worker that dies or hangs costs the case that
it was in, which fails, and the next worker goes on with the rest.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import IO, Any, ClassVar

from portamem.conformance.contract import clauses
from portamem.conformance.contract.clause import Clause
from portamem.conformance.harness import worker
from portamem.conformance.harness.plan import Case, cases
from portamem.conformance.kit import program
from portamem.conformance.kit.outcome import Outcome, summed
from portamem.conformance.kit.patience import Patience
from portamem.conformance.kit.platform import platform_of

CASE_TIMEOUT_S = 90.0  # from one sign of life to the next
START_TIMEOUT_S = 90.0
_DRAIN_S = 5.0
# A signal of the moment before a wait begins is heard when that wait ends, so none is longer.
_HEARS_S = 0.1

_WORKER = "from portamem.conformance.harness.worker import main; main(sys.argv[1:])"


@dataclass(frozen=True)
class CaseResult:
    """The outcome of one case."""

    check: str
    resource: str
    outcome: Outcome
    detail: str
    seconds: float
    witness: str = ""
    """The witness that decided it."""
    notes: tuple[str, ...] = ()
    lacks_witness: bool = False
    """True: it is not shown, because a witness would have to decide it."""


@dataclass(frozen=True)
class ClauseResult:
    """The outcome of a clause on one backend."""

    clause: Clause
    backend: str
    cases: tuple[CaseResult, ...]

    @property
    def outcome(self) -> Outcome:
        found = summed(case.outcome for case in self.cases)
        undecided = any(case.lacks_witness for case in self.cases)
        return Outcome.NOT_SHOWN if undecided and found not in (Outcome.FAIL, Outcome.DEFECT) else found

    @property
    def witnessed(self) -> bool:
        return any(case.witness for case in self.cases)


@dataclass
class Run:
    """The outcomes of a backend."""

    backend: str
    platform: dict[str, Any] = field(default_factory=dict)
    """The worker's words for the machine it runs on; with "reason" where the backend cannot be used."""
    clauses: list[ClauseResult] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = True
    """False: the first failure ended it, or an interrupt."""
    interrupted: bool = False

    @property
    def cases(self) -> set[tuple[str, str]]:
        """The checks that were run, each with the kind of resource that it was run over, or none."""
        return {(case.check, case.resource) for result in self.clauses for case in result.cases if case.check}

    @property
    def kinds(self) -> set[str]:
        """The kinds of resources that anything was run over."""
        return {resource for _, resource in self.cases if resource}


Progress = Callable[[str, int, int], None]
"""Called with a case's name, how many are done, and how many there are."""


def run(
    backend: str,
    select: Sequence[str] = (),
    *,
    resources: Sequence[str] = (),
    modules: Sequence[str] = (),
    first_failure: bool = False,
    in_process: bool = False,
    progress: Progress = lambda name, done, total: None,
) -> Run:
    """Runs what is selected on a backend that loads. ``modules`` register kinds of their own; of ``resources``, those
    alone whose names match a pattern.

    ``in_process`` is for debuggers and memory checkers: all runs here, and what needs its own process is not shown.
    """
    begun = time.monotonic()
    platform = _platform_here(backend) if in_process else _platform(backend, modules)
    with_device = platform["evidence"] != "library"
    planned = list(cases(backend, select, with_device=with_device, resources=resources))
    found: dict[str, CaseResult] = {}
    stopped = interrupted = False

    def take(key: str, result: CaseResult) -> None:
        nonlocal stopped
        if interrupted:
            return  # of a worker that was ended: it says nothing about the case
        found[key] = result
        stopped = stopped or (first_failure and result.outcome is Outcome.FAIL)
        progress(key, len(found), len(planned))

    together = [case for case in planned if not case.check.own_process]
    alone = [case for case in planned if case.check.own_process and not case.check.exclusive]
    try:
        if in_process:
            _run_here(backend, planned, take, lambda: stopped)
        else:
            with ThreadPoolExecutor(max_workers=max(2, min(4, len(os.sched_getaffinity(0))))) as pool:
                try:  # an interrupt may come as soon as the first chore runs, while others are still being handed in
                    chores = [pool.submit(_run_all, backend, together, modules, take, lambda: stopped)]
                    chores += [pool.submit(_run_all, backend, [case], modules, take, lambda: stopped) for case in alone]
                    for chore in chores:
                        while not wait([chore], _HEARS_S).done:
                            pass
                        chore.result()
                except BaseException:
                    stopped = interrupted = True
                    _Worker.kill_all()
                    raise
            for case in planned:
                if case.check.exclusive and not stopped:
                    _run_all(backend, [case], modules, take, lambda: stopped)
    except KeyboardInterrupt:
        stopped = interrupted = True
    results = list(_by_clause(backend, select, planned, found, with_device, every_kind=not resources))
    return Run(backend, platform, results, time.monotonic() - begun, finished=not stopped, interrupted=interrupted)


def _run_all(
    backend: str,
    planned: Sequence[Case],
    modules: Sequence[str],
    take: Callable[[str, CaseResult], None],
    stopped: Callable[[], bool],
) -> None:
    """Runs cases in one worker after the other, until none is left."""
    left = {case.key: case for case in planned}
    while left and not stopped():
        process = _Worker(backend, list(left), modules, next(iter(left.values())).check.environment)
        try:
            if stopped():
                process.kill()  # it was being made when the others were ended
            for key, result in process.results(left):
                del left[key]
                take(key, result)
                if stopped():
                    break
        except BaseException:
            process.kill()
            raise
        finally:
            process.close()


def _run_here(
    backend: str, planned: Sequence[Case], take: Callable[[str, CaseResult], None], stopped: Callable[[], bool]
) -> None:
    pm = import_module(f"portamem.{backend}")
    platform, patience = platform_of(pm), Patience()
    for case in planned:
        if stopped():
            return
        if case.check.own_process:
            why = "it needs a process of its own"
            take(case.key, CaseResult(*_name(case), Outcome.NOT_SHOWN, why, 0.0))
        else:
            take(case.key, _result(case, worker.run_case(case, pm, platform, patience)))


def _platform_here(backend: str) -> dict[str, Any]:
    pm = import_module(f"portamem.{backend}")
    return worker.described(pm, platform_of(pm))


class _Worker:
    """A worker process and the pipe on which it answers.

    It has a session of its own, so that Ctrl-C is this process's alone, and so that what it started ends with it.
    """

    _live: ClassVar[set[_Worker]] = set()
    _live_lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def kill_all(cls) -> None:
        """Ends every worker at once, and what they have started."""
        with cls._live_lock:
            live = list(cls._live)
        for each in live:
            each.kill()

    def __init__(self, backend: str, keys: list[str], modules: Sequence[str], environment: dict[str, str]) -> None:
        read_end, write_end = os.pipe()
        order = json.dumps({"backend": backend, "cases": keys, "with": list(modules)})
        self._files = ExitStack()
        self._said: IO[bytes] = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with _files)
        # More than fits a command line.
        told: IO[bytes] = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with _files)
        told.write(order.encode())
        told.seek(0)
        try:
            self._process = subprocess.Popen(
                program.python(_WORKER, "", [str(write_end)]),
                pass_fds=(write_end,),
                stdin=told,
                stdout=self._said,
                stderr=self._said,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        self._answers = self._files.enter_context(os.fdopen(read_end, "rb"))
        self._pending = b""
        self.platform: dict[str, Any] | None = None
        with self._live_lock:
            self._live.add(self)

    def kill(self) -> None:
        """Ends the process and all of its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def results(self, planned: dict[str, Case]) -> Iterator[tuple[str, CaseResult]]:
        """The results as they come. The last one may be that of a case in which the process died or hung."""
        current, timeout = "", START_TIMEOUT_S
        while (line := self._line(timeout)) is not None:
            answer = json.loads(line)
            if "platform" in answer:
                self.platform = answer["platform"]
            elif "started" in answer:
                current, timeout = answer["started"], CASE_TIMEOUT_S
            elif "goes_on" not in answer:
                yield answer["ended"], _result(planned[answer["ended"]], answer)
                current, timeout = "", START_TIMEOUT_S
        how = self.end()
        if how or current or planned.keys():
            key = current or next(iter(planned), "")
            if key:
                words = (
                    f"the process {how or 'ended early'} {'in' if current else 'before'} this case: {self.last_words()}"
                )
                yield key, CaseResult(*_name(planned[key]), Outcome.FAIL, words, 0.0)

    def end(self) -> str:
        """Ends the process, and says how it ended where that was not with success."""
        if self._process.poll() is None:
            try:
                self._process.wait(_DRAIN_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGABRT)  # its fault handler tells where it hangs
                try:
                    self._process.wait(_DRAIN_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                return f"hung (no answer within {CASE_TIMEOUT_S:g} s)"
        return "" if self._process.returncode == 0 else program.Ended(self._process.returncode, "", "").how

    def close(self) -> None:
        """Ends the process if it has not ended, and closes the pipe and the file that it wrote to."""
        try:
            self.end()
        finally:
            with self._live_lock:
                self._live.discard(self)
            self._files.close()

    def _line(self, timeout: float) -> bytes | None:
        """The next line of the worker; None where it ended, or said nothing for so long."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._answers], [], [], max(0.0, min(left, _HEARS_S)))
            if not ready and left > 0:
                continue
            if not ready:
                return None
            read = os.read(self._answers.fileno(), 1 << 16)
            if not read:
                return None
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def last_words(self) -> str:
        """The end of what it printed."""
        self._said.seek(0)
        return self._said.read()[-1500:].decode(errors="replace").strip() or "it said nothing"


def _platform(backend: str, modules: Sequence[str]) -> dict[str, Any]:
    process = _Worker(backend, [], modules, {})
    try:
        try:
            for _ in process.results({}):
                pass
        except BaseException:
            process.kill()
            raise
        if process.platform is None:
            how = process.end() or "ended"
            raise ValueError(f"portamem.{backend} cannot be tried: its process {how}: {process.last_words()}")
        return process.platform
    finally:
        process.close()


def _name(case: Case) -> tuple[str, str]:
    return case.check.name, case.kind.name if case.kind else ""


def _result(case: Case, answer: dict[str, Any]) -> CaseResult:
    return CaseResult(
        *_name(case),
        Outcome(answer["outcome"]),
        answer["detail"],
        answer["seconds"],
        answer.get("witness", ""),
        tuple(answer.get("notes", ())),
        answer.get("lacks_witness", False),
    )


def _by_clause(
    backend: str,
    select: Iterable[str],
    planned: Sequence[Case],
    found: dict[str, CaseResult],
    with_device: bool,
    *,
    every_kind: bool,
) -> Iterator[ClauseResult]:
    wanted = {each.upper() for each in select}
    for clause in clauses().values():
        if backend not in clause.backends or (wanted and not wanted & {clause.id, clause.group}):
            continue
        own = [case for case in planned if clause.id in case.check.ids]
        results = [found[case.key] for case in own if case.key in found]
        if not own and not every_kind:
            continue
        if not own:
            words = "it needs a device" if not with_device else "it concerns machines without a device"
            results = [CaseResult("", "", Outcome.NOT_SHOWN, words, 0.0)]
        yield ClauseResult(clause, backend, tuple(results))
