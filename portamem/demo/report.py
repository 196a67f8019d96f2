# SPDX-License-Identifier: MIT
"""The demo's output: a heading, progress on a terminal, a table of the legs and one of the accidents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import portamem as pm
from portamem import _console
from portamem._sizes import format_size
from portamem.demo.data import Data
from portamem.demo.rates import Rates

HOST_BANNER = "The host backend: order and limits are real, rates are not a GPU's, so none are shown."
NO_VENDOR_NOTE = "No raw figures: they need the vendor's Python package, pip install 'portamem[{backend}]'."
RAW_NOTE = "GB/s count both ways. Raw: the vendor's own Memcpy between the same host memory and plain device memory."


@dataclass(frozen=True)
class LegResult:
    """The outcome of a leg. ``failure`` says what went wrong, ``skipped`` what the device lacks; else all was right."""

    kind: str
    way: str
    call: str
    verified: int
    failure: str = ""
    skipped: str = ""
    rates: Rates | None = None


@dataclass(frozen=True)
class AccidentResult:
    """The outcome of an accident: the message that refused it, or how it went through."""

    name: str
    message: str
    refused: bool


def console() -> Console:
    """Standard output. What is no terminal gets a width at which the tables are whole, and no colour."""
    return _console.console(110, markup=False)


def print_heading(out: Console, data: Data) -> None:
    device = pm.Device()
    out.print(f"portamem {pm.__version__} on {pm.backend}:{device.ordinal}, {device.name} ({device.arch})")
    out.print(f"{data.name}: {data.nbytes:,} bytes ({format_size(data.nbytes)})")
    if pm.backend == "host":
        out.print(HOST_BANNER)
    out.print()


@contextmanager
def progress(out: Console, total: int) -> Iterator[Callable[[str, int], None]]:
    """Gives a function to report bytes with. Nothing is drawn where `out` is not a terminal."""
    columns = (TextColumn("{task.description:<28}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda words, nbytes: bar.update(task, description=words, advance=nbytes)


def print_legs(out: Console, results: Sequence[LegResult]) -> None:
    with_rates = any(result.rates for result in results)
    with_raw = any(result.rates and result.rates.vendor is not None for result in results)
    table = Table("kind", "copies", "call", title="Every byte there and back", title_justify="left")
    table.add_column("bytes", justify="right")
    table.add_column("verified")
    for title in ["GB/s"] * with_rates + ["raw GB/s"] * with_raw:
        table.add_column(title, justify="right")
    for result in results:
        words = result.failure or result.skipped or "all"
        style = "red" if result.failure else "yellow" if result.skipped else ""
        row = [result.kind, result.way, result.call, f"{result.verified:,}", words]
        if with_rates:
            row.append(f"{result.rates.portamem:.1f}" if result.rates else "")
        if with_raw:
            row.append(f"{result.rates.vendor:.1f}" if result.rates and result.rates.vendor is not None else "")
        table.add_row(*row, style=style)
    out.print(table)
    if with_rates:
        out.print(RAW_NOTE if with_raw else NO_VENDOR_NOTE.format(backend=pm.backend))
    out.print()


def print_accidents(out: Console, results: Sequence[AccidentResult]) -> None:
    table = Table("accident", "", "message", title="Accidents refused", title_justify="left", show_lines=True)
    for result in results:
        verdict = "refused" if result.refused else "NOT REFUSED"
        table.add_row(result.name, verdict, result.message, style="" if result.refused else "red")
    out.print(table)
    out.print()
