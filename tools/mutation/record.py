# SPDX-License-Identifier: MIT
"""Keeps the mutants' outcomes so far in a file: a run that is taken up again does only what may have changed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mutation.sites import Mutant

FORMAT = 1


@dataclass
class Result:
    """The outcome of one mutant."""

    id: str
    file: str
    line: int
    column: int
    operator: str
    source: str
    digest: str
    """The digest of its file as it was without the change."""
    state: str
    """ "killed", "survived", or "not compiled"."""
    clauses: list[str] = field(default_factory=list)
    """Clauses that failed, up to the first failure."""
    how: str = ""
    """ "failed", "timeout" or "crash" (the suite could not run)."""
    model: str = ""
    """The machine model in which it was seen, where not the first."""
    build_seconds: float = 0.0
    suite_seconds: float = 0.0
    suite: str = ""
    """Digest of the Python package with which it survived: with another one it is tried again."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass
class Record:
    """All results of one seed."""

    seed: int
    count: int
    clauses: int = 0
    """The number of the contract's clauses that held without a fault."""
    runs: int = 0
    """The number of runs that all this is of; 0 where that is unknown."""
    results: dict[str, Result] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def known(self, mutant: Mutant, digest: str, suite: str) -> Result | None:
        """The outcome of a mutant before, if that still holds: its file is as it was, and so is the suite it
        survived."""
        found = self.results.get(mutant.id)
        if found is None or found.digest != digest or (found.state == "survived" and found.suite != suite):
            return None
        found.line, found.column = mutant.site.line, mutant.site.column
        return found

    def add(self, result: Result, path: Path) -> None:
        with self._lock:
            self.results[result.id] = result
            self.write(path)

    def write(self, path: Path) -> None:
        values = {"format": FORMAT, **asdict(self)}
        values["results"] = [asdict(result) for result in self.results.values()]
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, path)

    def keep(self, ids: Iterable[str]) -> None:
        """Forgets all others, and puts these in the order given."""
        self.results = {id: self.results[id] for id in ids}

    @staticmethod
    def read(path: Path, seed: int, count: int) -> Record:
        """The record of a file; a new one where there is none, or where it is of another seed."""
        if path.exists():
            values = json.loads(path.read_text(encoding="utf-8"))
            if values.pop("format") == FORMAT and values["seed"] == seed:
                results = {one["id"]: Result(**one) for one in values.pop("results")}
                return Record(**{**values, "count": count}, results=results)
        return Record(seed, count)


def digest_of(path: Path) -> str:
    """The digest of a file, or of all Python sources below a folder."""
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    whole = hashlib.sha256()
    for each in paths:
        whole.update(each.read_bytes())
    return whole.hexdigest()[:16]
