# SPDX-License-Identifier: MIT
"""Output for people: progress, the matrix of clauses and backends, and the reason of each outcome that is no pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from portamem.conformance.harness.runner import ClauseResult, Run
from portamem.conformance.harness.runner import Progress as Report
from portamem.conformance.kit.outcome import Outcome
from portamem.conformance.report.markdown import counted

_STYLES = {
    Outcome.PASS: "green",
    Outcome.EMULATED: "cyan",
    Outcome.UNSUPPORTED: "dim",
    Outcome.DEFECT: "yellow",
    Outcome.NOT_SHOWN: "dim",
    Outcome.FAIL: "bold red",
}


@contextmanager
def progress(out: Console, backend: str) -> Iterator[Report]:
    """Gives a function to report cases with. It draws only on a terminal."""
    columns = (
        TextColumn(backend),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[at]}"),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None, at="")
        yield lambda name, done, total: bar.update(task, completed=done, total=total, at=escape(name))


def print_matrix(out: Console, runs: Sequence[Run]) -> None:
    """The table clause x backend."""
    table = Table("clause", title="Conformance", title_justify="left")
    for run in runs:
        table.add_column(run.backend)
    table.add_column("promise")
    ids = list(dict.fromkeys(result.clause.id for run in runs for result in run.clauses))
    by_key = {(run.backend, result.clause.id): result for run in runs for result in run.clauses}
    for id in ids:
        cells = [by_key.get((run.backend, id)) for run in runs]
        text = next(cell.clause.text for cell in cells if cell)
        table.add_row(id, *(_cell(cell) for cell in cells), escape(text))
    out.print(table)


def print_details(out: Console, runs: Sequence[Run]) -> None:
    """Each failure and defect, and once each reason for which clauses were not shown."""
    for run in runs:
        for result in run.clauses:
            for case in result.cases:
                if case.outcome in (Outcome.FAIL, Outcome.DEFECT):
                    on = f" [{case.resource}]" if case.resource else ""
                    style = _STYLES[case.outcome]
                    out.print(
                        f"{run.backend} {result.clause.id} {case.check}{on}: {case.detail}", style=style, markup=False
                    )
        reasons: dict[str, list[str]] = {}
        for result in run.clauses:
            if result.outcome in (Outcome.NOT_SHOWN, Outcome.UNSUPPORTED):
                told = sorted(
                    result.cases, key=lambda case: (case.outcome is not result.outcome, not case.lacks_witness)
                )
                why = next((case.detail for case in told if case.detail), "it did not come to that")
                reasons.setdefault(f"{result.outcome.value}: {why}", []).append(result.clause.id)
            for note in dict.fromkeys(note for case in result.cases for note in case.notes):
                out.print(f"{run.backend} {result.clause.id}: {note}", style="dim", markup=False)
        for why, ids in reasons.items():
            out.print(f"{run.backend} {why}: {', '.join(ids)}", style="dim", markup=False)


def print_sums(out: Console, runs: Sequence[Run]) -> None:
    for run in runs:
        counts: dict[str, int] = {}
        for result in run.clauses:
            counts[result.outcome.value] = counts.get(result.outcome.value, 0) + 1
        witnesses = sorted({case.witness for result in run.clauses for case in result.cases if case.witness})
        decided = sum(result.witnessed for result in run.clauses)
        about = {"counts": counts, "witnesses": witnesses, "clauses_decided_by_witnesses": decided}
        on = ", ".join(device["name"] for device in run.platform["devices"]) or "no device"
        out.print(
            f"{run.backend} ({run.platform['evidence']}: {on}): {counted(about)}; {_cases(run)}; {run.seconds:.1f} s"
            + (", interrupted" if run.interrupted else "" if run.finished else ", ended by the first failure")
        )


def _cases(run: Run) -> str:
    """The number of cases, and of the kinds of resources that they ran over."""
    return f"{len(run.cases)} cases" + (f" over {len(run.kinds)} kinds of resources" if run.kinds else "")


def _cell(result: ClauseResult | None) -> str:
    if result is None:
        return ""
    return f"[{_STYLES[result.outcome]}]{result.outcome.value}[/]"
