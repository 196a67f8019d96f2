# SPDX-License-Identifier: MIT
"""The results as one document of plain values: what every written form is made of."""

from __future__ import annotations

import datetime
import os
import platform
from collections import Counter
from collections.abc import Sequence
from typing import Any

import portamem
from portamem.conformance.harness.runner import CaseResult, ClauseResult, Run

FORMAT = 1


def document(runs: Sequence[Run], *, pairs: bool = False) -> dict[str, Any]:
    """``{"clauses": [{"id", "backend", "outcome", "text", "witnessed", "cases": [...]}], "backends": {...}, ...}``.

    ``pairs``: it is about every two adaptors on a pool, and not about all resources."""
    return {
        "format": FORMAT,
        "portamem": portamem.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "when": datetime.date.today().isoformat(),
        **({"pairs": True} if pairs else {}),
        "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith("PORTAMEM_")},
        "backends": {run.backend: _backend(run) for run in runs},
        "clauses": [_clause(result) for run in runs for result in run.clauses],
    }


def _backend(run: Run) -> dict[str, Any]:
    counts = Counter(result.outcome.value for result in run.clauses)
    cases = [case for result in run.clauses for case in result.cases]
    return {
        **run.platform,
        "seconds": round(run.seconds, 2),
        "finished": run.finished,
        **({"interrupted": True} if run.interrupted else {}),
        "counts": dict(sorted(counts.items())),
        "cases": len(run.cases),
        "kinds": len(run.kinds),
        "witnesses": sorted({case.witness for case in cases if case.witness}),
        "clauses_decided_by_witnesses": sum(result.witnessed for result in run.clauses),
    }


def _clause(result: ClauseResult) -> dict[str, Any]:
    return {
        "id": result.clause.id,
        "backend": result.backend,
        "outcome": result.outcome.value,
        "text": result.clause.text,
        "witnessed": result.witnessed,
        "cases": [_case(case) for case in result.cases],
    }


def _case(case: CaseResult) -> dict[str, Any]:
    found: dict[str, Any] = {"check": case.check, "outcome": case.outcome.value, "seconds": case.seconds}
    for name in ("resource", "detail", "witness", "notes", "lacks_witness"):
        if getattr(case, name):
            found[name] = getattr(case, name)
    return found
