# SPDX-License-Identifier: MIT
"""Make evidence/evidence.md, and the sentence about AMD in README.md, from the reports of runs.

    python tools/evidence.py [REPORT.json...] > page     (without names: evidence/runs/*.json)
    python tools/evidence.py --write                     evidence/evidence.md and README.md
    python tools/evidence.py --add NAME FOLDER           takes a run in as evidence/runs/NAME-*.json first

A report is what tools/report.py writes, or ``portamem conformance --report``. A run that was taken in before under that
name is replaced.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import conformance_evidence as conformance  # noqa: E402

FOLDER = ROOT / "evidence" / "runs"
PAGE = ROOT / "evidence" / "evidence.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- evidence: from tools/evidence.py, do not edit -->\n", "<!-- end of evidence -->\n"

Row = dict[str, Any]
Report = dict[str, Any]

WORDS = {
    "gpu": "it ran on a real GPU",
    "spelling": "HIP's own headers on the NVIDIA platform, on a real GPU: AMD's runtime is not in it",
    "library": "the vendor's real library, without a device",
    "simulated": "a stand-in runtime",
    "compiled": "compiled, and no more than that",
    "here": "the CPU backend, in the test suite",
}
"""The ways in which a thing is known, from the most to the least that it says of a GPU. They never share a column."""

CLAIMS = {
    "builds": "the package builds",
    "headers compile": "headers compile",
    "says why without a device": "without a device",
    "C++ tests": "C++ tests",
    "Python tests": "Python tests",
    "tests under the vendor's memory checker": "under the memory checker",
    "four processes at once on one device": "of four at once",
    "soak": "soak",
    "the example": "the example",
}
"""The summary's lines, each with what is in the names of the runs that it sums up."""


def read(paths: Iterable[Path]) -> list[Report]:
    """Reports in the order of their names. One that is not a report is an error."""
    reports = []
    for path in sorted(paths):
        report = json.loads(path.read_text(encoding="utf-8"))
        if report.get("format") != 1:
            raise ValueError(f"{path}: not a report of format 1")
        if "clauses" in report:
            report["rows"] = conformance.rows(report)
        for row in report["rows"]:
            missing = {"kind", "what", "backend", "on", "when", "commit", "result"} - row.keys()
            if missing or row["kind"] not in WORDS:
                raise ValueError(f"{path}: a row without {missing or 'a known kind'}: {row}")
        reports.append(report)
    return reports


def rows_of(reports: list[Report]) -> list[Row]:
    return [row for report in reports for row in report["rows"]]


def ran_on_amd(rows: list[Row]) -> bool:
    """True where anything has run there, well or not."""
    return any(
        row["kind"] == "gpu" and row["backend"] == "hip" and not row["result"].startswith("not run") for row in rows
    )


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def about_amd(rows: list[Row]) -> str:
    if ran_on_amd(rows):
        return "It has run on an AMD GPU: see the rows of `hip` under `gpu`."
    ways = [word for word in WORDS if word != "here" and any(r["kind"] == word and r["backend"] == "hip" for r in rows)]
    known = f"What is known of its HIP backend is {' and '.join(f'`{way}`' for way in ways)}. " if ways else ""
    return wrapped(
        f"**Nothing here has run on an AMD GPU: none has been available.** {known}If you have one, two minutes help: "
        '`pip install ".[hip]" && portamem conformance --backend hip --report amd.json`, and an issue with that file, '
        "which names no host, no user and no folder."
    )


def result_of(row: Row) -> str:
    """ "312 passed, 4 skipped", or the word. What failed stands out."""
    counts = row.get("counts", {})
    text = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    if row["result"] == "failed":
        return f"**failed**{': ' if text else ''}{text}"
    return text or row["result"]


def table(head: list[str], lines: Iterable[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for line in lines:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"


def skips(rows: list[Row]) -> Iterator[str]:
    listed = [
        [row["what"], row["backend"], str(skip["count"]), skip["reason"]]
        for row in rows
        for skip in row.get("skips", [])
    ]
    if listed:
        unique = sorted({tuple(line): None for line in listed})
        yield from ["", "Skipped, and why:", ""]
        yield from table(["in", "backend", "tests", "reason"], (list(line) for line in unique))


def section(kind: str, rows: list[Row]) -> Iterator[str]:
    own = [row for row in rows if row["kind"] == kind]
    yield from ["", f"## `{kind}`", "", f"{WORDS[kind][0].upper()}{WORDS[kind][1:]}.", ""]
    if not own:
        yield "Nothing so far."
        return
    head = ["what", "backend", "on", "when", "commit", "result"]
    yield from table(head, ([*(row[key] for key in head[:-1]), result_of(row)] for row in own))
    yield from skips(own)


def benchmarks(reports: list[Report]) -> Iterator[str]:
    measured = [report for report in reports if report.get("bench") and report["machine"]["gpus"]]
    if not measured:
        return
    yield from ["", "## Beside its peers", ""]
    yield "Medians of one run in which everybody took turns. A ratio is portamem's time by the peer's; for copies, its"
    yield "rate by the peer's. It is the median of the repeats, with the lowest and the highest. Absolute times hold"
    yield "for that machine only."
    for report in measured:
        row = next(row for row in report["rows"] if row["what"] == "benchmarks ran")
        yield from ["", f"{row['on']}, {row['when']}, commit {row['commit']}:", ""]
        lines = []
        for case in report["bench"]:
            own, unit = case["values"]["portamem"], case["unit"]
            target = f"{case['target']}: {'holds' if case['holds'] else '**missed**'}" if "target" in case else ""
            peers = [(name, value) for name, value in case["values"].items() if name != "portamem"]
            for name, value in peers or [("-", None)]:
                ratio = "{:.3f} ({:.3f} to {:.3f})".format(*case["ratio"][name]) if name in case["ratio"] else ""
                theirs = f"{value:g} {unit}" if value is not None else ""
                bound = target if name in target or name == "the vendor's call" else ""
                lines.append([case["what"], f"{own:g} {unit}", name, theirs, ratio, bound])
        yield from table(["what", "portamem", "peer", "its own", "ratio", "target"], lines)


def soaks(reports: list[Report]) -> Iterator[str]:
    soaked = [(report, run) for report in reports for run in report.get("soak", [])]
    if not soaked:
        return
    yield from ["", "## Soak", ""]
    yield "Every kind of memory from many threads at once, each byte checked; at the end as much is free as before."
    yield ""
    lines = []
    for report, run in soaked:
        named = (run.get("what", "soak"), run["backend"])
        row = next(row for row in report["rows"] if (row["what"], row["backend"]) == named)
        given = sum(n for what, n in run["counts"].items() if what.startswith("allocations:"))
        # In Python each thread has streams of its own; in C++ all share them.
        shared = named[0] != "soak"
        work = f"{run['threads']} threads{' and' if shared else ' of'} {run['streams']} streams, {run['seconds']:g} s"
        work = f"{named[0].removeprefix('soak of ')}: {work}" if shared else work
        done = f"{given:,} allocations, {run['counts'].get('bytes verified', 0) / 1e9:,.1f} GB verified"
        lines.append([f"`{row['kind']}`, {run['backend']}", row["on"], row["when"], work, done, result_of(row)])
    yield from table(["how", "on", "when", "work", "done", "result"], lines)


def page(reports: list[Report]) -> str:
    rows = rows_of(reports)
    lines = [
        "# Evidence",
        "",
        "Generated by `python tools/evidence.py --write` from the reports in `evidence/runs`: do not edit.",
        "",
    ]
    lines += ["What has been shown of portamem, on what, and how. The words are not worth the same:", ""]
    lines += [f"- `{word}`: {meaning}" for word, meaning in WORDS.items()]
    lines += ["", about_amd(rows), "", "## Summary", "", *summary(reports)]
    for kind in WORDS:
        lines += section(kind, rows)
    lines += conformance.section(reports, table)
    lines += benchmarks(reports)
    lines += soaks(reports)
    return "\n".join(lines) + "\n"


def summary_cell(rows: list[Row]) -> str:
    """The newest result of each backend, the worst of those that one line sums up."""
    newest: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: str(row["when"])):  # of one day: as they were read
        newest[row["backend"], row["what"]] = row
    cells = []
    for backend in sorted({backend for backend, _ in newest}):
        own = [row for (of, _), row in newest.items() if of == backend and not row["result"].startswith("not run")]
        if not own:
            continue
        if any(row["result"] == "failed" for row in own):
            cells.append(f"{backend}: **failed**")
            continue
        passed = sum(row.get("counts", {}).get("passed", 0) for row in own)
        cells.append(f"{backend}: {passed} passed" if passed else f"{backend}: yes")
    return ", ".join(cells) or "-"


def summary(reports: list[Report]) -> list[str]:
    """One line per claim and one per group of clauses, with a column per word."""
    rows = rows_of(reports)
    kinds = [kind for kind in WORDS if any(row["kind"] == kind for row in rows)]
    lines = []
    for claim, part in CLAIMS.items():
        own = [row for row in rows if part in row["what"] and not (part.endswith("tests") and row["what"] != part)]
        cells = [summary_cell([row for row in own if row["kind"] == kind]) for kind in kinds]
        if any(cell != "-" for cell in cells):
            lines.append([claim, *cells])
    text = [*table(["", *(f"`{kind}`" for kind in kinds)], lines), ""]
    for kind in kinds:
        on = sorted({row["on"] for row in rows if row["kind"] == kind and not row["result"].startswith("not run")})
        text.append(wrapped(f"- `{kind}`: {'; '.join(on)}", "  "))
    if suites := conformance.columns(reports):
        text += ["", wrapped(conformance.ABOUT), "", *conformance.matrix(suites, table)]
    return text


def with_sentence(readme: str, reports: list[Report]) -> str:
    """The README with its sentence about AMD from the reports."""
    before, _, rest = readme.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise ValueError("README.md has lost the marks around its sentence about AMD")
    return f"{before}{BEGIN}{about_amd(rows_of(reports))}\n{END}{after}"


def add(name: str, folder: Path) -> None:
    """Copies a run's reports into evidence/runs, in the place of an earlier run of the same name."""
    found = sorted(folder.glob("*.json"))
    read(found)  # a file that is no report is refused before anything changes
    if not found:
        raise FileNotFoundError(f"{folder} holds no report")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob(f"{name}-*.json"):
        old.unlink()
    for path in found:
        (FOLDER / f"{name}-{path.name}").write_bytes(path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("reports", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="write evidence/evidence.md and README.md")
    parser.add_argument("--add", nargs=2, metavar=("NAME", "FOLDER"), help="take a run in, then as with --write")
    options = parser.parse_args()
    if options.add:
        add(options.add[0], Path(options.add[1]))
    reports = read(options.reports or FOLDER.glob("*.json"))
    if not (options.write or options.add):
        sys.stdout.write(page(reports))
        return 0
    PAGE.write_text(page(reports), encoding="utf-8")
    README.write_text(with_sentence(README.read_text(encoding="utf-8"), reports), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
