"""evidence/evidence.md and the sentence about AMD in README.md are made from the committed reports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.script import load_script

ROOT = Path(__file__).parent.parent
GENERATOR = ROOT / "tools" / "evidence.py"


@pytest.fixture(scope="module")
def evidence() -> ModuleType:
    module = load_script(GENERATOR)
    if not module.FOLDER.exists():
        pytest.skip("a source distribution leaves docs and evidence out")
    return module


def report(**row: Any) -> dict[str, Any]:
    whole = {"kind": "gpu", "what": "Python tests", "backend": "cuda", "on": "a card", "when": "2026-01-02"}
    whole |= {"commit": "abc", "result": "passed", "counts": {"passed": 41, "failed": 0, "skipped": 1}} | row
    return {"format": 1, "stage": "pytest", "seconds": 1, "machine": {"gpus": ["a card"]}, "rows": [whole]}


def test_the_committed_page_is_the_generated_one(evidence: ModuleType) -> None:
    reports = evidence.read(evidence.FOLDER.glob("*.json"))
    assert reports
    assert evidence.PAGE.read_text(encoding="utf-8") == evidence.page(reports), "run: python tools/evidence.py --write"


def test_the_readme_has_the_generated_sentence(evidence: ModuleType) -> None:
    reports = evidence.read(evidence.FOLDER.glob("*.json"))
    readme = evidence.README.read_text(encoding="utf-8")
    assert readme == evidence.with_sentence(readme, reports), "run: python tools/evidence.py --write"


def test_reports_name_no_machine(evidence: ModuleType) -> None:
    for path in evidence.FOLDER.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < 128 << 10, path
        assert "hostname" not in text, path
        assert re.findall(r"(?<![\w.])/\w+/", text) == [], f"{path} holds an absolute path"


def test_amd_is_not_claimed_until_it_ran(evidence: ModuleType) -> None:
    on_nvidia = [report(), report(kind="spelling", backend="hip")]
    marks = evidence.BEGIN + evidence.END
    for text in (evidence.page(on_nvidia), evidence.with_sentence(marks, on_nvidia)):
        assert "Nothing here has run on an AMD GPU" in text
    not_run = report(backend="hip", result="not run: there is none")
    assert "Nothing here has run on an AMD GPU" in evidence.page([not_run])
    for result in ("passed", "failed"):
        page = evidence.page([report(backend="hip", result=result)])
        assert "Nothing here has run on an AMD GPU" not in page


def test_words_have_columns_of_their_own(evidence: ModuleType) -> None:
    both = [report(), report(kind="spelling", backend="hip", counts={"passed": 7, "failed": 0, "skipped": 0})]
    table = [line for line in evidence.summary(both) if line.startswith("|")]
    assert table[0] == "|  | `gpu` | `spelling` |"
    assert table[2] == "| Python tests | cuda: 41 passed | hip: 7 passed |"


def suite_report(
    card: str, when: str = "2026-01-02", outcome: str = "pass", notes: tuple[str, ...] = ()
) -> dict[str, Any]:
    about = {"evidence": "gpu", "vendor": "amd", "compiled_version": "7.1", "runtime_version": "7.1", "seconds": 60.0}
    about |= {
        "driver_version": "",
        "devices": [{"name": card, "arch": "gfx942"}],
        "witnesses": [],
        "counts": {outcome: 1},
    }
    about |= {"clauses_decided_by_witnesses": 0}
    case = {"check": "alloc.one", "outcome": outcome, "notes": list(notes)}
    clause = {"id": "ALLOC-01", "backend": "hip", "outcome": outcome, "cases": [case]}
    whole = {
        "format": 1,
        "portamem": "0.1.0",
        "when": when,
        "settings": {},
        "backends": {"hip": about},
        "clauses": [clause],
    }
    return whole | {"rows": []}


def test_reports_of_two_cards_stand_beside_each_other(evidence: ModuleType) -> None:
    both = [suite_report("MI300X", outcome="fail"), suite_report("MI210")]
    titles = [column.title for column in evidence.conformance.columns(both)]
    assert titles == ["`gpu` hip, MI210", "`gpu` hip, MI300X"]
    assert [column.title for column in evidence.conformance.columns(both[:1])] == ["`gpu` hip"]


def test_of_one_card_the_latest_report_stands(evidence: ModuleType) -> None:
    both = [suite_report("MI210", "2026-03-01", "fail"), suite_report("MI210", "2026-01-01")]
    (column,) = evidence.conformance.columns(both)
    assert column.when == "2026-03-01"


def test_a_defect_that_did_not_show_shows(evidence: ModuleType) -> None:
    note = "a known defect did not show: it forgets (https://example.org/1)"
    page = evidence.page([suite_report("MI210", notes=(note, "something else"))])
    assert f"ALLOC-01 passed: {note}." in page
    assert "something else" not in page


def test_a_run_over_pairs_of_adaptors_stands_apart(evidence: ModuleType) -> None:
    pairs = suite_report("MI210", "2026-03-01") | {"pairs": True}
    pairs["backends"]["hip"] |= {"cases": 2380, "kinds": 30}
    whole = suite_report("MI210", "2026-01-01")
    (column,) = evidence.conformance.columns([whole, pairs])
    assert column.when == "2026-01-01"
    (row,) = evidence.conformance.rows(pairs)
    assert row["what"] == "conformance, pairs of adaptors"
    page = evidence.page([whole, pairs])
    assert "| `gpu` hip | MI210, HIP 7.1 | 2026-03-01 | 1 pass | 30 | 2380 |" in page
    assert "--pairs" not in evidence.page([whole])


def test_what_was_swept_shows(evidence: ModuleType) -> None:
    swept = suite_report("MI210", notes=("12 calls failed, one at a time, in 34 operations over 8 stacks; no finding",))
    swept["clauses"][0]["id"] = "ERROR-14"
    page = evidence.page([swept])
    assert "| `gpu` hip | 12 calls failed, one at a time, in 34 operations over 8 stacks; no finding |" in page
    assert "ERROR-14" not in evidence.page([suite_report("MI210")])


def test_a_failure_shows(evidence: ModuleType) -> None:
    broken = [report(result="failed", counts={"passed": 40, "failed": 1, "skipped": 0})]
    assert "**failed**: 40 passed, 1 failed" in evidence.page(broken)
    assert "cuda: **failed**" in evidence.page(broken)


def test_the_summary_shows_the_newest_run_in_whatever_order_the_reports_are_read(evidence: ModuleType) -> None:
    old = report(when="2026-01-01", result="failed", counts={"passed": 40, "failed": 1, "skipped": 0})
    for order in ([old, report()], [report(), old]):
        assert "| Python tests | cuda: 41 passed |" in evidence.page(order)


def test_a_skip_shows_with_its_reason(evidence: ModuleType) -> None:
    assert "one device here" in evidence.page([report(skips=[{"reason": "cuda has one device here", "count": 3}])])


def test_a_soak_and_figures_show_with_their_own_row(evidence: ModuleType) -> None:
    run = {"backend": "cuda", "threads": 8, "streams": 4, "seconds": 120.0}
    run["counts"] = {"allocations: device": 5, "bytes verified": 2_000_000_000}
    found = report()
    found["rows"].append({**found["rows"][0], "what": "soak", "counts": {}})
    found["rows"].append({**found["rows"][0], "what": "benchmarks ran", "counts": {}})
    found["soak"] = [run]
    case = {
        "what": "allocate",
        "unit": "us",
        "values": {"portamem": 1.0, "cupy": 2.0},
        "ratio": {"cupy": [0.5, 0.4, 0.6]},
    }
    found["bench"] = [{**case, "target": "at most 1 x cupy", "holds": True}]
    text = evidence.page([found])
    assert "| 8 threads of 4 streams, 120 s | 5 allocations, 2.0 GB verified | passed |" in text
    assert "| allocate | 1 us | cupy | 2 us | 0.500 (0.400 to 0.600) | at most 1 x cupy: holds |" in text


@pytest.mark.parametrize("spoil", [{"kind": "hearsay"}, {"kind": None}])
def test_a_report_with_another_word_is_refused(evidence: ModuleType, tmp_path: Path, spoil: dict[str, Any]) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps(report(**spoil)), encoding="utf-8")
    with pytest.raises(ValueError, match="known kind"):
        evidence.read([path])
