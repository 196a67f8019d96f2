# SPDX-License-Identifier: MIT
"""A replay's findings, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from portamem._sizes import format_size
from portamem.replay.log import Log
from portamem.replay.plan import Plan
from portamem.replay.runner import Result
from portamem.replay.target import Target


def document(path: str, log: Log, plan: Plan, target: Target, result: Result) -> dict[str, Any]:
    """Everything, for JSON. Times are nanoseconds a call; those of the log were taken inside of portamem."""
    made = [step.call for step in plan.steps if step.call.error is None]
    then = {event: _times([call.nanoseconds for call in made if call.event == event]) for event in ("alloc", "free")}
    return {
        "log": path,
        "header": log.header,
        "backend": target.pm.backend,
        "resource": target.name,
        "calls": len(plan.steps),
        "skipped": plan.skipped,
        "threads": len({step.call.thread for step in plan.steps}),
        "streams": len({step.call.stream for step in plan.steps}),
        "allocations": len(result.allocate),
        "frees": len(result.free),
        "records": result.records,
        "left_live": plan.left,
        "failures": result.failures,
        "first_failure": result.first_failure,
        "refused_again": result.refused_again,
        "granted": result.granted,
        "peak_live": result.peak_live,
        "peak_reserved": target.peak_reserved(result.peak_live),
        "wants_release": target.wants_release,
        "seconds": result.seconds,
        "now": {"allocate": _times(result.allocate), "free": _times(result.free)},
        "then": {"allocate": then["alloc"], "free": then["free"]},
    }


def _times(nanoseconds: Sequence[int]) -> dict[str, float] | None:
    if not nanoseconds:
        return None
    ordered = sorted(nanoseconds)
    last = len(ordered) - 1
    return {
        "mean": sum(ordered) / len(ordered),
        "p50": ordered[round(last * 0.5)],
        "p99": ordered[round(last * 0.99)],
        "max": ordered[-1],
    }


def show(out: Console, found: dict[str, Any]) -> None:
    """The same as text."""
    header = found["header"]
    out.print(
        f"{found['log']}: portamem {header.get('portamem')} on {header.get('host')}, rank {header.get('rank')}; now on "
        f"{found['backend']}, resource {found['resource']}",
        markup=False,
    )
    out.print(
        f"{found['calls']} calls: {found['allocations']} allocations, {found['frees']} frees, {found['records']} uses "
        f"on other streams; {found['threads']} thread(s), {found['streams']} stream(s), {found['seconds']:.3g} s"
    )
    if found["skipped"]:
        out.print(f"{found['skipped']} calls are not made again: resources made them of each other, or did nothing")
    if found["left_live"]:
        out.print(f"{found['left_live']} allocations were not freed when the log ended")
    reserved = found["peak_reserved"]
    live = found["peak_live"]
    ratio = f" ({reserved / live:.3g} x)" if reserved and live else ""
    text = "the resource cannot say" if reserved is None else f"{format_size(reserved)}{ratio}"
    out.print(f"peak live {format_size(live)}, peak reserved: {text}")
    if found["wants_release"]:
        out.print(f"{found['resource']} gives nothing back before release(), which is in no log", markup=False)
    table = Table("us a call", title_justify="left")
    for when in ("then", "now"):
        for figure in ("mean", "p50", "p99", "max"):
            table.add_column(f"{when} {figure}", justify="right")
    for call in ("allocate", "free"):
        cells = [_cells(found[when][call]) for when in ("then", "now")]
        table.add_row(call, *cells[0], *cells[1])
    out.print(table)
    if found["refused_again"]:
        out.print(f"{found['refused_again']} allocations were refused then and now")
    if found["granted"]:
        out.print(f"{found['granted']} allocations were refused then, and are granted now")
    if found["failures"]:
        out.print(f"{found['failures']} allocations FAILED that were granted then; first:")
        out.print(found["first_failure"], markup=False)
    else:
        out.print("no allocation failed that was granted then")


def _cells(times: dict[str, float] | None) -> list[str]:
    return ["-"] * 4 if times is None else [f"{value / 1000:.4g}" for value in times.values()]
