# SPDX-License-Identifier: MIT
"""The reports of ``portamem conformance --report`` as evidence: the matrix of groups and platforms, and what did not
pass. A report is taken as it was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

Report = dict[str, Any]
Table = Callable[[list[str], Iterable[list[str]]], Iterator[str]]

KINDS = ("gpu", "spelling", "library", "simulated", "here")
HELD = ("pass", "emulated")
ORDER = ("pass", "emulated", "unsupported", "defect", "not-shown", "fail")

ABOUT = (
    "`portamem conformance` shows the [contract](contract.md) clause by clause, on your machine too. Clauses that "
    "held wherever they were seen, of those in each group; one that a device has no use for, or that could not be seen "
    "at all, does not count as held:"
)


@dataclass(frozen=True)
class Column:
    """One backend of one report."""

    kind: str
    backend: str
    on: str
    about: dict[str, Any]
    clauses: list[dict[str, Any]]
    when: str
    portamem: str
    model: str = ""
    """The machine that the CPU backend stands for, where that is not the usual one."""
    tells_cards: bool = False
    """Another column is like this one but for its devices."""

    @property
    def cards(self) -> str:
        return _cards(self.about) if self.kind in ("gpu", "spelling") else ""

    @property
    def title(self) -> str:
        version = f" {self.about['runtime_version']}" if self.kind == "simulated" else ""
        cards = f", {self.cards}" if self.tells_cards and self.cards else ""
        return f"`{self.kind}` {self.backend}{version}{self.model}{cards}"


def columns(reports: Iterable[Report], *, pairs: bool = False) -> list[Column]:
    """Every backend of every report, by how it is known. Of reports of the same platform and devices the latest stands;
    where there are several kinds of device, their names are in the titles. ``pairs``: of those over pairs of adaptors,
    which are no columns of the others' table."""
    found: dict[tuple[str, str, str, str], Column] = {}
    for report in reports:
        if bool(report.get("pairs")) != pairs:
            continue
        for backend, about in report["backends"].items() if "clauses" in report else ():
            own = [clause for clause in report["clauses"] if clause["backend"] == backend]
            on = _on(backend, about)
            model = f" {report['settings'].get('PORTAMEM_HOST_MODEL', '')}".rstrip() if backend == "host" else ""
            column = Column(about["evidence"], backend, on, about, own, report["when"], report["portamem"], model)
            key = (column.kind, column.backend, column.title, column.cards)
            if key not in found or found[key].when <= column.when:
                found[key] = column
    titles = Counter(column.title for column in found.values())
    told = [replace(column, tells_cards=titles[column.title] > 1) for column in found.values()]
    return sorted(told, key=lambda column: (KINDS.index(column.kind), column.title))


def rows(report: Report) -> list[dict[str, Any]]:
    """The report's backends as rows of evidence, in the form of tools/report.py."""
    pairs = bool(report.get("pairs"))
    what = "conformance, pairs of adaptors" if pairs else "conformance"
    return [
        {
            "kind": column.kind,
            "what": what + (f", {column.title.split()[-1]}" if column.kind == "simulated" else ""),
            "backend": column.backend,
            "on": column.on,
            "when": column.when,
            "commit": f"portamem {column.portamem}",
            "result": "failed" if column.about["counts"].get("fail") else "passed",
            "counts": {word: column.about["counts"].get(word, 0) for word in ORDER},
        }
        for column in columns([report], pairs=pairs)
    ]


def matrix(suites: list[Column], table: Table) -> Iterator[str]:
    """Groups x platforms: how many clauses held, of how many."""
    groups = list(dict.fromkeys(_group(clause) for column in suites for clause in column.clauses))
    lines = [
        [group, *(_cell([c for c in column.clauses if _group(c) == group]) for column in suites)] for group in groups
    ]
    lines.append(["all", *(_cell(column.clauses) for column in suites)])
    decided = [str(column.about["clauses_decided_by_witnesses"]) for column in suites]
    lines.append(["decided by a witness", *decided])
    yield from table(["", *(column.title for column in suites)], lines)


def section(reports: list[Report], table: Table) -> Iterator[str]:
    """The part of evidence/evidence.md."""
    suites = columns(reports)
    if not suites:
        return
    yield from ["", "## Conformance", ""]
    yield "Clauses of [the contract](contract.md) that held wherever they were seen, of those in each group. Not"
    yield "counted as held: what a capability says is not there, what could not be seen at all, a known defect of the"
    yield "vendor's, and what failed."
    yield ""
    yield from matrix(suites, table)
    for column in suites:
        witnesses = ", ".join(column.about["witnesses"]) or "none"
        yield from ["", f"{column.title}: {column.on}, {column.when}, portamem {column.portamem}: {_counts(column)}."]
        yield f"Witnesses: {witnesses}. It took {column.about['seconds']:g} s."
        said = list(_said(column))
        if said:
            yield ""
            yield from table(["clause", "outcome", "why"], said)
        yield from _surprises(column)
    yield from _sweeps(suites, table)
    yield from _pairs(columns(reports, pairs=True), table)


def _sweeps(suites: list[Column], table: Table) -> Iterator[str]:
    """The notes of the check of ERROR-14: how many calls failed, in how many operations."""
    notes = [
        [column.title, note]
        for column in suites
        for clause in column.clauses
        if clause["id"] == "ERROR-14"
        for case in clause["cases"]
        for note in case.get("notes", ())
    ]
    if notes:
        yield from ["", "### Every call fails once", ""]
        yield "What ERROR-14 says of its run: a workload on each stack of resources runs again and again, while its"
        yield "first call of the runtime fails, its second, and so on to its last, as out of memory and with another"
        yield "error. A finding is a wrong count, memory that is out twice or stays behind, or a wrong exception. It is"
        yield "shown on the CPU backend alone."
        yield ""
        yield from table(["platform", "found"], notes)


def _pairs(runs: list[Column], table: Table) -> Iterator[str]:
    if runs:
        yield from ["", "### Every two adaptors on a pool", ""]
        yield "`portamem conformance --pairs`: the clauses of allocation, lifetime and order, over a kind of resource"
        yield "for each ordered pair."
        yield ""
        lines = (
            [run.title, run.on, run.when, _counts(run), str(run.about["kinds"]), str(run.about["cases"])]
            for run in runs
        )
        yield from table(["platform", "on", "when", "clauses", "kinds", "cases"], lines)


def _counts(column: Column) -> str:
    counts = column.about["counts"]
    return ", ".join(f"{counts[word]} {word}" for word in ORDER if counts.get(word))


def _surprises(column: Column) -> Iterator[str]:
    """Known defects of the vendor's that did not show: the table of defects wants another look then."""
    for clause in column.clauses:
        if clause["outcome"] not in HELD:
            continue
        for note in dict.fromkeys(note for case in clause["cases"] for note in case.get("notes", ())):
            if note.startswith("a known defect did not show"):
                yield from ["", f"{clause['id']} passed: {' '.join(note.split())}."]


def _said(column: Column) -> Iterator[list[str]]:
    """The clauses that are not plainly held, with the reason; clauses of the same reason share a line."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for clause in column.clauses:
        if clause["outcome"] != "pass":
            told = sorted(clause["cases"], key=lambda case: not case.get("lacks_witness", False))
            why = next((c["detail"] for c in told if c["outcome"] == clause["outcome"] and c.get("detail")), "")
            reasons.setdefault((clause["outcome"], " ".join(why.split())[:300]), []).append(clause["id"])
    for (outcome, why), ids in sorted(reasons.items(), key=lambda item: (-ORDER.index(item[0][0]), item[1])):
        yield [", ".join(ids), outcome, why]


def _group(clause: dict[str, Any]) -> str:
    return str(clause["id"]).rpartition("-")[0]


def _cell(own: list[dict[str, Any]]) -> str:
    counts = Counter(clause["outcome"] for clause in own)
    held = sum(counts[word] for word in HELD)
    if not own:
        return "-"
    bad = [f"**{counts[word]} {word}**" for word in ("fail", "defect") if counts[word]]
    return ", ".join([str(held) if held == len(own) else f"{held} of {len(own)}", *bad])


def _cards(about: dict[str, Any]) -> str:
    names = Counter(device["name"] for device in about["devices"])
    return " and ".join(f"{n} {name}" if n > 1 else name for name, n in names.items())


def _on(backend: str, about: dict[str, Any]) -> str:
    cards = _cards(about)
    if backend == "host":
        return "CPU"
    compiled = f"{backend.upper()} {about['compiled_version']}"
    over = " on the NVIDIA platform" if backend == "hip" and about["vendor"] == "nvidia" else ""
    driver = f", driver for {about['driver_version']}" if about["driver_version"] and cards else ""
    return f"{cards or 'no device'}{driver}, {compiled}{over}"
