# SPDX-License-Identifier: MIT
"""evidence/suite.md: how the conformance suite was tested, from what the two commands found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mutation.reasons import EQUIVALENT, REASONS
from mutation.record import Record, Result
from mutation.workshop import ROOT

PAGE = ROOT / "evidence" / "suite.md"
RECORD = ROOT / "evidence" / "suite" / "mutants.json"
RECORD_OF_PARTS = ROOT / "evidence" / "suite" / "mutants-parts.json"
DEFECTS = ROOT / "evidence" / "suite" / "defects.json"
WANTED = 0.85
WANTED_OF_PARTS = 0.9
"""The least part that the suite has to notice, of the mutants that stand."""


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page that belongs to the committed results."""
    lines = [
        "# Tests of the conformance suite",
        "",
        "A suite that passes shows something only if it fails when something is wrong. Two commands plant faults in",
        "copies of portamem's sources, build these for the host backend, and run `portamem conformance` on them:",
        "`tools/defects.py --write` and `tools/mutants.py --write`. The tables are what they found, and nothing else.",
        "",
        *_defects(),
        "",
        *_mutants(),
        "",
        *_mutants_of_parts(),
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
    standing = [result for result in record.results.values() if stands(result)]
    how = Counter(result.how for result in standing if result.state == "killed")
    spent = sum(result.build_seconds + result.suite_seconds for result in record.results.values())
    yield f"{words(record)}."
    yield ""
    yield f"Drawn with seed {record.seed}, uniformly over the tokens of `csrc` that a build for host compiles and that"
    yield "another can stand for: operators, integers, `true` and `false`, some functions of the standard library."
    yield "Comments, directives, enumerators and the texts of messages are no targets, nor are first values of"
    yield "variables that a call overwrites. One that does not compile is no mutant, nor is one that no program can"
    yield f"tell from the original on the CPU runtime: for each of those the next was drawn, until {len(standing)}"
    yield "stood. A killed mutant is one with which the suite fails, dies or hangs:"
    yield f"{how['failed']} failed a clause, with {how['crash']} the suite could not run, {how['timeout']} hung."
    yield f"Of {record.clauses} clauses that hold on host, each mutant shows the first that failed. All in all they"
    yield f"took {spent / 60:.0f} minutes of one workshop; workshops stand side by side."
    if record.runs == 1:
        yield "All results are of one run."
    else:
        yield "They are not all of one run: a result stays until a run finds its file changed, or, of a survivor, the"
        yield "suite. What was changed since the last run is told by no result yet."
    yield "Clauses were written for survivors of this very draw: another seed may do worse."
    yield ""
    yield from _tables(record, "")


def _mutants_of_parts() -> Iterator[str]:
    record = Record.read(RECORD_OF_PARTS, 1, 100)
    yield "## Mutants of adaptors, events and copies"
    yield ""
    yield "A second draw, in the same way, from the files alone that adaptors, the events behind freed memory, and"
    yield "copies are in (`PARTS` in `tools/mutation/sites.py`): `tools/mutants.py --parts`."
    yield ""
    if not record.results:
        yield "None were tried yet."
        return
    yield f"{words(record)}."
    yield ""
    yield from _tables(record, " of the parts")


def _tables(record: Record, whose: str) -> Iterator[str]:
    standing = [result for result in record.results.values() if stands(result)]
    yield f"### Survivors{whose}"
    yield ""
    yield from _survivors([result for result in standing if result.state == "survived"])
    yield ""
    yield f"### Equivalent{whose}"
    yield ""
    yield "Those that were drawn, survived, and do not count: no program can tell them from the original on the CPU"
    yield "runtime."
    yield ""
    yield from _survivors([result for result in record.results.values() if is_equivalent(result)])
    yield ""
    yield f"### Killed{whose}"
    yield ""
    yield "| where | change | by |"
    yield "|---|---|---|"
    for result in sorted((result for result in standing if result.state == "killed"), key=_place):
        by = ", ".join(result.clauses) or result.how
        yield f"| {_where(result)} | {_code(result.operator)} | {by}{f' ({result.model})' if result.model else ''} |"


def _survivors(survivors: list[Result]) -> Iterator[str]:
    yield "| where | change | line | why |"
    yield "|---|---|---|---|"
    for result in sorted(survivors, key=_place):
        _, why = REASONS.get(result.id, ("", "nobody has looked at it yet"))
        yield f"| {_where(result)} | {_code(result.operator)} | {_code(result.source)} | {why} |"


def is_listed_equivalent(id: str) -> bool:
    """True where people found that a mutant is equivalent. If the suite kills it, they were wrong."""
    return REASONS.get(id, ("", ""))[0] == EQUIVALENT


def is_equivalent(result: Result) -> bool:
    return result.state == "survived" and is_listed_equivalent(result.id)


def stands(result: Result) -> bool:
    """True where it is one of the hundred: it compiles, and a program can tell it from the original."""
    return result.state != "not compiled" and not is_equivalent(result)


def rate(record: Record) -> float:
    """The part that was killed, of those that stand."""
    standing = [result for result in record.results.values() if stands(result)]
    return sum(result.state == "killed" for result in standing) / len(standing) if standing else 0.0


def words(record: Record) -> str:
    results = record.results.values()
    standing = [result for result in results if stands(result)]
    killed = sum(result.state == "killed" for result in standing)
    equivalent = sum(is_equivalent(result) for result in results)
    return (
        f"{killed} of {len(standing)} killed ({rate(record):.0%}); drawn besides: {equivalent} that are equivalent, "
        f"{len(results) - len(standing) - equivalent} that did not compile"
    )


def _place(result: Result) -> tuple[str, int, int]:
    return result.file, result.line, result.column


def _where(result: Result) -> str:
    return f"`{result.file.removeprefix('csrc/')}:{result.line}`"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")
