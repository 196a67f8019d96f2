# SPDX-License-Identifier: MIT
"""docs/quirks.md: which clauses of the conformance suite notice which quirk of HIP on AMD.

The suite runs over each stand-in (tests/standin) as its version is said to be, and then with one quirk the other way
round at a time. A clause notices a quirk if its outcome is another one with it than without it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 1200

Outcomes = Mapping[str, str]
"""Clause to outcome; empty where a run told nothing."""


@dataclass(frozen=True)
class Quirk:
    name: str
    about: str
    source: str
    by_default: bool


@dataclass
class Run:
    """One run of the suite: its outcomes, or why it has none."""

    outcomes: Outcomes = field(default_factory=dict)
    trouble: str = ""


@dataclass
class Standin:
    """What was run over one stand-in: plain, and with each quirk the other way round."""

    abi: str
    quirks: list[Quirk]
    plain: Run
    turned: dict[str, Run]

    def with_and_without(self, quirk: Quirk) -> tuple[Run, Run]:
        turned = self.turned[quirk.name]
        return (self.plain, turned) if quirk.by_default else (turned, self.plain)


def noticed(with_it: Outcomes, without_it: Outcomes) -> dict[str, str]:
    """The clauses whose outcome a quirk changes, each with what it changes."""
    clauses = sorted(set(with_it) | set(without_it))
    pairs = {clause: (without_it.get(clause, "absent"), with_it.get(clause, "absent")) for clause in clauses}
    return {clause: f"{before} → {after}" for clause, (before, after) in pairs.items() if before != after}


def outcomes_of(report: Mapping[str, Any], backend: str = "hip") -> Outcomes:
    return {clause["id"]: clause["outcome"] for clause in report["clauses"] if clause.get("backend") == backend}


def _who_notices(quirk: str, standins: Sequence[Standin]) -> str:
    """The cell of a quirk: what each clause makes of it, and where, if not everywhere."""
    places: dict[tuple[str, str], list[str]] = {}
    troubles = []
    for standin in standins:
        known = next(each for each in standin.quirks if each.name == quirk)
        with_it, without_it = standin.with_and_without(known)
        for run, what in ((with_it, "with"), (without_it, "without")):
            if run.trouble:
                troubles.append(f"{standin.abi}: the run {what} it {run.trouble}")
        if with_it.trouble or without_it.trouble:
            continue
        for clause, change in noticed(with_it.outcomes, without_it.outcomes).items():
            places.setdefault((change, clause), []).append(standin.abi)
    alike: dict[str, list[str]] = {}
    everywhere = [standin.abi for standin in standins]
    for (change, clause), abis in sorted(places.items()):
        where = "" if abis == everywhere else f" on {', '.join(abis)}"
        alike.setdefault(change + where, []).append(clause)
    lines = [f"{change}: {', '.join(clauses)}" for change, clauses in alike.items()]
    return "<br>".join(lines + troubles) or "none"


def _counted(run: Run) -> str:
    if run.trouble:
        return f"the run {run.trouble}"
    found = sorted(set(run.outcomes.values()))
    return ", ".join(f"{list(run.outcomes.values()).count(outcome)} {outcome}" for outcome in found)


def page(standins: Sequence[Standin]) -> str:
    abis = [standin.abi for standin in standins]
    lines = [
        "# Quirks of HIP on AMD, and who notices them",
        "",
        "Written by `ci/standins.sh quirks`. **Simulated**: no AMD GPU took part. The conformance suite ran over",
        f"stand-ins for HIP {' and '.join(abis)} (`tests/standin`), each as its version is said to be, and then with",
        "one quirk the other way round at a time. A clause is named if its outcome changes: without the quirk → with",
        "it. `none` means that portamem bridges the quirk, or that no clause is about it.",
        "",
        "| HIP | as it is said to be |",
        "|---|---|",
        *(f"| {standin.abi} | {_counted(standin.plain)} |" for standin in standins),
        "",
        "| quirk | what it is | on by default | clauses that notice it | source |",
        "|---|---|---|---|---|",
    ]
    for quirk in standins[0].quirks:
        on = [
            standin.abi
            for standin in standins
            for each in standin.quirks
            if each.name == quirk.name and each.by_default
        ]
        default = "everywhere" if on == abis else ", ".join(on) or "nowhere"
        cells = (f"`{quirk.name}`", quirk.about, default, _who_notices(quirk.name, standins), quirk.source)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def environment(folder: Path, quirks: str) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("STANDIN_", "PORTAMEM_"))}
    variables["PYTHONPATH"] = str(folder / "site-packages")
    variables["LD_LIBRARY_PATH"] = str(folder / "lib")
    variables["STANDIN_QUIRKS"] = quirks
    return variables


def conformance(folder: Path, quirks: str) -> Run:
    """Runs the suite. A report that is there already is of this build of the stand-in, and is read instead."""
    report = folder / "reports" / f"conformance-{quirks or 'plain'}.json"
    report.parent.mkdir(exist_ok=True)
    if not report.exists():
        command = [sys.executable, "-P", "-m", "portamem", "conformance", "--backend", "hip", "--json", str(report)]
        variables = environment(folder, quirks)
        try:
            done = subprocess.run(
                command, env=variables, cwd="/", capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return Run(trouble=f"did not end within {TIMEOUT_S} s")
        if not report.exists():
            print(f"{folder.name} {quirks or 'plain'}: exit {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
            return Run(trouble=f"ended with exit code {done.returncode} and no report")
    return Run(outcomes_of(json.loads(report.read_text(encoding="utf-8"))))


def quirks_of(folder: Path) -> list[Quirk]:
    """The table that a stand-in has of its own quirks, asked in a process of its own."""
    library = next((folder / "lib").glob("libamdhip64.so.*"))
    code = (
        "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).portamem_standin; f.restype = ctypes.c_char_p; "
        "print(f().decode())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(library)],
        env=environment(folder, ""),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = json.loads(said)["quirks"]
    return [Quirk(row["name"], row["about"], row["source"], row["by_default"]) for row in rows]


def run_all(root: Path, abis: Iterable[str], workers: int) -> list[Standin]:
    made = []
    with ThreadPoolExecutor(workers) as pool:
        for abi in abis:
            folder = root / abi
            quirks = quirks_of(folder)
            plain = pool.submit(conformance, folder, "")
            turned = {
                quirk.name: pool.submit(conformance, folder, f"-{quirk.name}" if quirk.by_default else quirk.name)
                for quirk in quirks
            }
            results = {name: future.result() for name, future in turned.items()}
            made.append(Standin(abi, quirks, plain.result(), results))
            print(f"HIP {abi}: {_counted(made[-1].plain)}", flush=True)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--standins", type=Path, required=True, help="where ci/standins.sh has built them")
    parser.add_argument("--write", type=Path, help="the page to write; printed without")
    parser.add_argument("abis", nargs="+", help="5.2, 6.1, 7.1")
    options = parser.parse_args()
    standins = run_all(options.standins, options.abis, int(os.environ.get("JOBS", os.cpu_count() or 1)))
    text = page(standins)
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    if any(standin.plain.trouble for standin in standins):
        raise SystemExit("quirks: a plain run told nothing")


if __name__ == "__main__":
    main()
