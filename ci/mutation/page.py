# SPDX-License-Identifier: MIT
"""docs/suite.md: how the conformance suite was tested, from what the two commands found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mutation.reasons import EQUIVALENT, REASONS
from mutation.record import Record, Result
from mutation.workshop import ROOT

PAGE = ROOT / "docs" / "suite.md"
RECORD = ROOT / "docs" / "suite" / "mutants.json"
DEFECTS = ROOT / "docs" / "suite" / "defects.json"
WANTED = 0.85
"""The least part that the suite has to notice, of the mutants that a program can tell from the original."""


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page that belongs to the committed results."""
    lines = [
        "# Tests of the conformance suite",
        "",
        "A suite that passes shows something only if it fails when something is wrong. Two commands plant faults in",
        "copies of portamem's sources, build these for the host backend, and run `portamem conformance` on them:",
        "`ci/defects.py --write` and `ci/mutants.py --write`. The tables are what they found; nothing else was asked.",
        "",
        *_defects(),
        "",
        *_mutants(),
    ]
    return "\n".join(lines) + "\n"


def _defects() -> Iterator[str]:
    found: list[dict[str, Any]] = json.loads(DEFECTS.read_text(encoding="utf-8")) if DEFECTS.exists() else []
    caught = sum(bool(each["named"]) for each in found)
    yield "## Deliberate defects"
    yield ""
    yield f"{caught} of {len(found)} were caught by a clause that is named for them (bold)."
    yield "The others that failed are of the same groups; the rest was not run."
    yield ""
    yield "| defect | where | clauses that failed |"
    yield "|---|---|---|"
    for each in found:
        others = [id for id in each["clauses"] if id not in each["named"]]
        shown = [f"**{id}**" for id in each["named"]] + others[:6]
        more = f" and {len(others) - 6} more" if len(others) > 6 else ""
        yield f"| {each['defect']} | `{each['file']}` | {', '.join(shown)}{more} |"


def _mutants() -> Iterator[str]:
    record = Record.read(RECORD, 1, 100)
    yield "## Mutants"
    yield ""
    if not record.results:
        yield "None were tried yet."
        return
    compiled = record.compiled()
    killed = [result for result in compiled if result.state == "killed"]
    how = Counter(result.how for result in killed)
    spent = sum(result.build_seconds + result.suite_seconds for result in record.results.values())
    yield f"{record.words()}. Drawn with seed {record.seed}, uniformly over the tokens of `csrc`"
    yield "that a build for host compiles and that another can stand for: operators, integers, `true` and `false`,"
    yield "some functions of the standard library. Comments, directives, enumerators and the texts of messages are"
    yield "no targets, nor are first values of variables that a call overwrites. A killed mutant is one with which the"
    yield "suite fails, dies or hangs:"
    yield f"{how['failed']} failed a clause, with {how['crash']} the suite could not run, {how['timeout']} hung."
    yield f"Of {record.clauses} clauses that hold on host, each mutant shows the first that failed. All in all they"
    yield f"took {spent / 60:.0f} minutes of one workshop; workshops stand side by side. A result stays as long as its"
    yield "file does, so that not all are of one run; survivors are tried again whenever the suite has changed. Clauses"
    yield "were written for survivors of this very draw: another seed may do worse."
    yield ""
    survivors = [result for result in compiled if result.state == "survived"]
    equivalent = sum(is_equivalent(result) for result in survivors)
    rest = len(compiled) - equivalent
    yield f"{equivalent} of {len(survivors)} survivors are equivalent: no program can tell them from the original on"
    yield f"the CPU runtime. Of the other {rest}, {len(killed) / rest:.0%} were killed."
    yield ""
    yield from _survivors(survivors)
    yield ""
    yield "### Killed"
    yield ""
    yield "| where | change | by |"
    yield "|---|---|---|"
    for result in sorted(killed, key=_place):
        by = ", ".join(result.clauses) or result.how
        yield f"| {_where(result)} | {_code(result.operator)} | {by}{f' ({result.model})' if result.model else ''} |"


def _survivors(survivors: list[Result]) -> Iterator[str]:
    yield "### Survivors"
    yield ""
    yield "| where | change | line | why |"
    yield "|---|---|---|---|"
    for result in sorted(survivors, key=_place):
        kind, why = REASONS.get(result.id, ("?", "nobody has looked at it yet"))
        yield f"| {_where(result)} | {_code(result.operator)} | {_code(result.source)} | {kind}: {why} |"


def is_equivalent(result: Result) -> bool:
    return REASONS.get(result.id, ("", ""))[0] == EQUIVALENT


def _place(result: Result) -> tuple[str, int, int]:
    return result.file, result.line, result.column


def _where(result: Result) -> str:
    return f"`{result.file.removeprefix('csrc/')}:{result.line}`"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")
