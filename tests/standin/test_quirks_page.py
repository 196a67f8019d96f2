"""ci/quirks.py: which clause notices which quirk, from what the runs said."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "ci" / "quirks.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the sources of portamem are not here")


@pytest.fixture(scope="module")
def quirks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quirks_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


REPORT = {
    "clauses": [
        {"id": "ALLOC-01", "backend": "hip", "outcome": "pass", "cases": []},
        {"id": "ALLOC-02", "backend": "hip", "outcome": "fail", "cases": []},
        {"id": "ALLOC-01", "backend": "host", "outcome": "fail", "cases": []},
    ]
}


def test_outcomes_are_of_one_backend(quirks: ModuleType) -> None:
    assert quirks.outcomes_of(REPORT) == {"ALLOC-01": "pass", "ALLOC-02": "fail"}


def test_what_changes_is_noticed(quirks: ModuleType) -> None:
    found = quirks.noticed({"A": "fail", "B": "pass", "C": "pass"}, {"A": "pass", "B": "pass", "D": "unsupported"})
    assert found == {"A": "pass → fail", "C": "absent → pass", "D": "unsupported → absent"}


def make(quirks: ModuleType, abi: str, *, by_default: bool, plain: dict[str, str], turned: object) -> object:
    quirk = quirks.Quirk("loses_things", "things are lost", "somewhere#1", by_default)
    return quirks.Standin(abi, [quirk], quirks.Run(plain), {"loses_things": turned})


def row(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith("| `loses_things`"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_direction_is_that_of_the_quirk(quirks: ModuleType) -> None:
    """A run without a quirk that is on by default is compared the other way round."""
    on = make(quirks, "5.2", by_default=True, plain={"A": "fail"}, turned=quirks.Run({"A": "pass"}))
    off = make(quirks, "6.1", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "fail"}))
    cells = row(quirks.page([on, off]))
    assert cells == ["`loses_things`", "things are lost", "5.2", "pass → fail: A", "somewhere#1"]


def test_where_it_is_noticed(quirks: ModuleType) -> None:
    seen = make(quirks, "5.2", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "defect"}))
    unseen = make(quirks, "7.1", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "pass"}))
    assert row(quirks.page([seen, unseen]))[2:4] == ["nowhere", "pass → defect on 5.2: A"]
    assert row(quirks.page([unseen]))[3] == "none"


def test_clauses_that_change_alike_are_told_together(quirks: ModuleType) -> None:
    turned = quirks.Run({"A": "fail", "B": "fail", "C": "unsupported"})
    seen = make(quirks, "5.2", by_default=False, plain={"A": "pass", "B": "pass", "C": "pass"}, turned=turned)
    assert row(quirks.page([seen]))[3] == "pass → fail: A, B<br>pass → unsupported: C"


def test_a_run_that_ends_badly_is_told(quirks: ModuleType) -> None:
    """And is not taken for one in which every clause changed."""
    ended = quirks.Run(trouble="ended with exit code 139 and no report")
    text = quirks.page([make(quirks, "5.2", by_default=False, plain={"A": "pass"}, turned=ended)])
    assert row(text)[3] == "5.2: the run with it ended with exit code 139 and no report"
    assert "| 5.2 | 1 pass |" in text
