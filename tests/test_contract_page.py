"""docs/contract.md is what the clauses say, and each of them is fit to be read."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from portamem.conformance.clause import EVERYWHERE
from portamem.conformance.contract import GROUPS, clauses

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "ci" / "contract.py"

CLAUSES = list(clauses().values())


def test_the_page_is_the_generated_one() -> None:
    spec = importlib.util.spec_from_file_location("contract", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.PAGE.parent.exists():
        pytest.skip("a source distribution leaves docs out")
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run: python ci/contract.py --write"


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_ids_count_up_without_gaps(group: object) -> None:
    name = getattr(group, "name", "")
    numbers = [clause.id.rpartition("-")[2] for clause in CLAUSES if clause.group == name]
    assert numbers == [f"{n:02}" for n in range(1, len(numbers) + 1)]
    assert numbers, f"group {name} has no clause"


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.id)
def test_a_clause_is_a_promise_in_plain_sentences(clause: object) -> None:
    text = getattr(clause, "text", "")
    assert text.endswith("."), text
    assert len(text) < 400, "one or two sentences"
    assert not re.search(r"\b(should|TODO|etc)\b", text), text


def test_every_shortfall_has_a_source_and_an_answer() -> None:
    for clause in CLAUSES:
        assert set(clause.backends) <= set(EVERYWHERE), clause.id
        for shortfall in clause.shortfalls:
            assert shortfall.answer in ("bridged", "emulated", "capability"), clause.id
            assert shortfall.vendor in ("amd", "nvidia", "both"), clause.id
            assert len(shortfall.source) > 5, clause.id
        for defect in clause.defects:
            assert defect.vendor in ("amd", "nvidia"), clause.id
            assert defect.thread.startswith("https://"), clause.id
            assert defect.since < defect.until, clause.id
            # A range that is open at an end says why.
            closed = defect.since > (0, 0) and defect.until < (999, 0)
            assert closed or re.search(r"unknown|no release", defect.versions), clause.id
            assert not defect.versions.endswith("."), clause.id
