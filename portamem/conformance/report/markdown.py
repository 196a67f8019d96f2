# SPDX-License-Identifier: MIT
"""Markdown: how many clauses of each group had which outcome on each backend, the failures and defects, and notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from portamem.conformance.contract import GROUPS

ORDER = ("pass", "emulated", "unsupported", "defect", "not-shown", "fail")


def markdown(document: dict[str, Any]) -> str:
    """A document of results as a page."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    backends = list(document["backends"])
    yield f"# Conformance of portamem {document['portamem']}, {document['when']}"
    yield ""
    for name, about in document["backends"].items():
        devices = ", ".join(device["name"] for device in about["devices"]) or "no device"
        yield f"- {name} (`{about['evidence']}`): {devices}, runtime {about['runtime_version']}; {counted(about)}"
    yield ""
    yield from matrix(document, backends)
    for clause in document["clauses"]:
        said = {case["detail"] for case in clause["cases"] if case.get("detail")}
        if clause["outcome"] in ("fail", "defect"):
            yield ""
            yield f"**{clause['id']} on {clause['backend']}: {clause['outcome']}.** {clause['text']}"
            yield from (f"- {line}" for detail in sorted(said) for line in [" ".join(detail.split())])
    for clause in document["clauses"]:
        notes = dict.fromkeys(note for case in clause["cases"] for note in case.get("notes", ()))
        if notes:
            yield ""
            yield f"{clause['id']} on {clause['backend']}:"
            yield from (f"- {' '.join(note.split())}" for note in notes)


def matrix(document: dict[str, Any], backends: list[str]) -> Iterator[str]:
    """A table of groups x backends, which counts outcomes."""
    yield "| group | " + " | ".join(backends) + " |"
    yield "|---|" + "---|" * len(backends)
    for group in GROUPS:
        cells = []
        for backend in backends:
            own = [c for c in document["clauses"] if c["backend"] == backend and c["id"].startswith(f"{group.name}-")]
            counts = Counter(clause["outcome"] for clause in own)
            cells.append(", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word]) or "-")
        if any(cell != "-" for cell in cells):
            yield f"| {group.name}: {group.title} | " + " | ".join(cells) + " |"


def counted(about: dict[str, Any]) -> str:
    """The outcomes of a backend in words, and how many a witness decided."""
    words = ", ".join(f"{about['counts'][word]} {word}" for word in ORDER if about["counts"].get(word))
    decided = about["clauses_decided_by_witnesses"]
    return f"{words}; {decided} decided by {', '.join(about['witnesses'])}" if decided else words
