"""The conformance suite on the backend under test: each clause of the contract is a test here."""

from __future__ import annotations

from functools import cache
from typing import NoReturn

import pytest
from helpers import backend

from portamem.conformance.contract import clauses
from portamem.conformance.contract.clause import Clause
from portamem.conformance.harness import plan, runner
from portamem.conformance.kit.outcome import Outcome

MINUTES = 60

CLAUSES = [clause for clause in clauses().values() if backend.under_test().backend in clause.backends]


@cache
def results() -> dict[str, runner.ClauseResult]:
    """All clauses in one run: each starts processes of its own only where it must."""
    name = backend.under_test().backend
    return {result.clause.id: result for result in runner.run(name).clauses}


def test_every_clause_is_shown_and_every_check_names_its_clause() -> None:
    assert plan.mismatches() == []


@pytest.mark.timeout(15 * MINUTES)  # the first one runs the suite, also under a sanitizer
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.id)
def test_clause(clause: Clause) -> None:
    result = results()[clause.id]
    said = [
        f"{case.check}[{case.resource}] {case.outcome.value}: {case.detail}" for case in result.cases if case.detail
    ]
    if result.outcome is Outcome.FAIL:
        pytest.fail(f"{clause.text}\n" + "\n".join(said), pytrace=False)
    if result.outcome not in (Outcome.PASS, Outcome.EMULATED):
        _skip(result)


def _skip(result: runner.ClauseResult) -> NoReturn:
    why = next((case.detail for case in result.cases if case.outcome is result.outcome), "it did not come to that")
    pytest.skip(f"{result.outcome.value}: {why}")
