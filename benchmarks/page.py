# SPDX-License-Identifier: MIT
"""Make evidence/performance.md and its pictures from the runs in evidence/performance.

    python benchmarks/page.py                 prints the page
    python benchmarks/page.py --write         writes evidence/performance.md and evidence/performance/*.svg
    python benchmarks/page.py --add FILE...   takes runs in first, each in the place of its backend's last one;
                                              with --machine h200 in that of the last one that was taken in so

A run is what benchmarks/table.py, examples/amr/amr.py or examples/amr_cpp writes with --json. The pictures are pygal's.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples" / "amr")]
from bounds import KNOWN_ON, OWN, ROWS  # noqa: E402

FOLDER = ROOT / "evidence" / "performance"
PAGE = ROOT / "evidence" / "performance.md"
BACKENDS = ("cuda", "hip", "host")
BUSY = 0.1
"""The part of a machine's processors with other work from which on a page warns of it."""

Run = dict[str, Any]

ABOUT = """\
What portamem's pool costs, beside what people use today, and what it has to reach. Every row is of a
default-constructed resource with all checks on and a stream given. A figure is the median of rounds in which everybody
takes a turn, in one process; behind it are the lowest and the highest. A time says something about its machine only:
what counts is the ratio of two that were measured in turns."""

NOT_SEEN = """\
Umpire's QuickPool is in none of these runs: `benchmarks/table.py` measures it where Umpire is installed, as it was on
none of these machines."""

ABOUT_PREDICTIONS = f"""\
*Predicted* is no measurement: it is this run's figure by what the peer took on another machine ({KNOWN_ON})."""


def read(paths: Iterable[Path]) -> list[Run]:
    runs = []
    for path in sorted(paths, key=lambda path: path.stem):
        run = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(run, dict) or run.get("format") != 1 or not ("rows" in run or "runs" in run):
            raise ValueError(f"{path}: neither a run of benchmarks/table.py nor one of an adaptive mesh")
        run["name"] = path.stem.partition("-")[2] or run["backend"]
        runs.append(run)
    return runs


def tables(runs: list[Run]) -> list[Run]:
    return [run for run in runs if "rows" in run]


def meshes(runs: list[Run]) -> list[Run]:
    return [run for run in runs if "runs" in run]


def program_of(run: Run) -> str:
    """Which of the two programs a run of an adaptive mesh is of."""
    return "amr_cpp" if run.get("program") == "examples/amr_cpp" else "amr"


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 120, break_on_hyphens=False)


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]


def number(value: float) -> str:
    """Three digits; thousands as they are."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def figures(values: Sequence[float]) -> str:
    middle, low, high = values
    return number(middle) if low == high else f"{number(middle)} ({number(low)} to {number(high)})"


def judgement(run: Run | None, key: str, which: int) -> str:
    """What a run says of a bound."""
    row = next((row for row in run["rows"] if row["key"] == key), None) if run else None
    if row is None or which >= len(row["bounds"]):
        return "not measured yet"
    bound = row["bounds"][which]
    if "aside" in bound:
        return f"{number(bound['ratio'])}: no bound, {bound['aside']}"
    if bound["holds"] is None:
        predicted = f"; predicted {number(bound['predicted'])}" if "predicted" in bound else ""
        return f"not measured: needs {bound['missing']}{predicted}"
    return f"{number(bound['ratio'])}: holds" if bound["holds"] else f"**{number(bound['ratio'])}: missed**"


def what_holds(runs: list[Run]) -> list[str]:
    by_name = {run["name"]: run for run in tables(runs)}
    missing = [backend for backend in BACKENDS if not any(run["backend"] == backend for run in tables(runs))]
    names = sorted([*by_name, *missing], key=lambda name: (BACKENDS.index(name.partition("-")[0]), name))
    lines = []
    for row in ROWS:
        for which, bound in enumerate(row.bounds):
            text = bound.judged({}, "")["text"]
            cells = [judgement(by_name.get(name), row.key, which) for name in names]
            lines.append([row.what, text, *cells])
    return ["## What has to hold", "", *table(["work", "bound", *names], lines), "", *wrapped(ABOUT_PREDICTIONS), ""]


def busy(run: Run) -> str:
    """What else the machine did. Older runs have load averages, which count their own threads too."""
    if "other_work" not in run:
        before, after = run["load"]
        return f"The load was {before:g} before and {after:g} after: it counts what had just ended, and the run itself."
    others = run["other_work"]
    if others is None:
        return "Whether the machine had other work is not known."
    processors = int(run["cpu"].split()[0])
    if others / processors < BUSY:
        return f"The machine was idle otherwise ({others:.2g} of {processors} processors had other work)."
    return (
        f"**The machine had other work meanwhile** ({others:.2g} of {processors} processors): only ratios are worth "
        "something, and those of rows with many threads little."
    )


def section(run: Run, pictures: Iterable[str]) -> list[str]:
    """One run, with all figures."""
    lines = [f"## {run['name']}: {run['on']}", ""]
    about = f"{run['cpu']}, Python {run['python']}, {run['when']}, commit {run['commit']}, {run['rounds']} rounds."
    lines += [*wrapped(f"{about} {busy(run)}"), ""]
    rows = []
    for row in run["rows"]:
        values, unit = row["values"], row["unit"]
        if not values and not row["bounds"]:
            continue  # the CPU's alone
        own = f"{figures(values[OWN])} {unit}".rstrip() if OWN in values else "not measured yet"
        others = [f"{who} {figures(value)}" for who, value in values.items() if who != OWN]
        rows.append([row["what"], own, "<br>".join(others)])
    lines += [*table(["work", "portamem", "beside it"], rows), ""]
    for name in pictures:
        lines += [f"![{name}](performance/{run['name']}-{name}.svg)", ""]
    return lines


def mesh_section(run: Run) -> list[str]:
    """What a pool saves an adaptive mesh."""
    plain, pool = run["runs"]
    program = program_of(run)
    lines = [f"## An adaptive mesh{' in C++' if program == 'amr_cpp' else ''} on {run['name']}", ""]
    lines += wrapped(
        f"[examples/{program}](../examples/README.md), {run['steps']} steps, {plain['blocks'][0]} to "
        f"{plain['blocks'][1]} blocks, on {run['on']}, {run['when']}. Arrays grow and shrink every few steps; both "
        f"runs ended with the same bits ({plain['checksum']})."
    )
    of: dict[str, Callable[[Run], str]] = {
        "allocations": lambda each: f"{each['allocations']:,}",
        "us for each, with its free": lambda each: number(each["seconds"] / each["allocations"] * 1e6),
        "of the time in all": lambda each: f"{each['seconds'] / each['seconds in all']:.1%}",
        "calls to the runtime": lambda each: f"{each['runtime calls']:,}",
        "peak reserved by peak live": lambda each: number(each["peak reserved"] / each["peak live"]),
    }
    rows = [[what, *(say(each) for each in (plain, pool))] for what, say in of.items()]
    head = ["", *(f"{each['name']}: {each['resource']}" for each in (plain, pool))]
    return [*lines, "", *table(head, rows), "", f"![memory over time](performance/{run['name']}-{program}.svg)", ""]


def page(runs: list[Run]) -> str:
    import plots

    lines = ["# Performance", ""]
    lines += wrapped(
        "Generated by `python benchmarks/page.py --write` from the runs in `evidence/performance`: do not edit. "
        "[benchmarks](../benchmarks/README.md) says how to make a run."
    )
    lines += ["", *wrapped(ABOUT), ""]
    if not any("Umpire QuickPool" in row["values"] for run in tables(runs) for row in run["rows"]):
        lines += [*wrapped(NOT_SEEN), ""]
    lines += what_holds(runs)
    for run in tables(runs):
        lines += section(run, plots.pictures(run))
    for backend in BACKENDS:
        if not any(run["backend"] == backend for run in tables(runs)):
            lines += [f"## {backend}: not measured yet", ""]
            lines += [f"`python benchmarks/table.py --backend {backend} --json FILE` on a machine with such a GPU.", ""]
    for run in meshes(runs):
        lines += mesh_section(run)
    return "\n".join(lines).rstrip("\n") + "\n"


def drawn(runs: list[Run]) -> dict[str, str]:
    """Every picture of the page by the name of its file."""
    import picture
    import plots

    found = {}
    for run in tables(runs):
        found |= {f"{run['name']}-{name}.svg": text for name, text in plots.pictures(run).items()}
    for run in meshes(runs):
        found[f"{run['name']}-{program_of(run)}.svg"] = picture.memory_over_time(run["runs"])
    return found


def add(path: Path, machine: str = "") -> None:
    """Takes a run in. What only the picture needs is thinned to what it shows."""
    import picture

    (run,) = read([path])
    del run["name"]  # the file's
    for each in run.get("runs", []):
        each["series"] = picture.thinned(each["series"])
    kind = "table" if "rows" in run else program_of(run)
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(run, indent=1 if kind == "table" else None) + "\n"
    name = "-".join(filter(None, (kind, run["backend"], machine)))
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page and its pictures")
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="FILE", help="take runs in, then --write")
    parser.add_argument("--machine", default="", metavar="NAME", help="what the runs' machine is called in their names")
    options = parser.parse_args()
    for path in options.add:
        add(path, options.machine)
    runs = read(FOLDER.glob("*.json"))
    if not (options.write or options.add):
        sys.stdout.write(page(runs))
        return 0
    PAGE.write_text(page(runs), encoding="utf-8")
    for old in FOLDER.glob("*.svg"):
        old.unlink()
    for name, text in drawn(runs).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
