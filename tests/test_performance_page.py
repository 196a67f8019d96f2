"""evidence/performance.md and its pictures are what the committed runs say; bounds are judged by what was measured."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"

pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="a source distribution leaves benchmarks and docs out")


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    finders = list(sys.meta_path)
    importlib.import_module("pygal")
    sys.meta_path[:] = finders  # its finder of plug-ins, for which Python before 3.12 warns at every import
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("page")
    sys.path[:] = before


@pytest.fixture(scope="module")
def bounds(page: ModuleType) -> ModuleType:
    return importlib.import_module("bounds")


@pytest.fixture(scope="module")
def runs(page: ModuleType) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.read(page.FOLDER.glob("*.json"))
    assert found
    return found


def test_the_committed_page_is_the_generated_one(page: ModuleType, runs: list[dict[str, Any]]) -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(runs), "run: python benchmarks/page.py --write"


def test_the_committed_pictures_are_the_generated_ones(page: ModuleType, runs: list[dict[str, Any]]) -> None:
    drawn = page.drawn(runs)
    assert sorted(drawn) == sorted(path.name for path in page.FOLDER.glob("*.svg"))
    for name, text in drawn.items():
        assert (page.FOLDER / name).read_text(encoding="utf-8") == text, "run: python benchmarks/page.py --write"
        assert f"](performance/{name})" in page.PAGE.read_text(encoding="utf-8")


def test_pictures_do_not_tell_the_day(page: ModuleType, runs: list[dict[str, Any]]) -> None:
    """Else they would be others tomorrow."""
    for name, text in page.drawn(runs).items():
        assert re.findall(r"20\d\d-\d\d-\d\d", text) == [], name


def test_runs_name_no_machine(page: ModuleType) -> None:
    for path in page.FOLDER.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < 64 << 10, path
        assert re.findall(r"(?<![\w.])/\w+/", text) == [], f"{path} holds an absolute path"


def test_a_run_holds_what_its_figures_say(bounds: ModuleType, page: ModuleType, runs: list[dict[str, Any]]) -> None:
    """The bounds of today, judged again by the medians of a run: none was made to hold by hand."""
    for run in page.tables(runs):
        figures = {row["key"]: {who: v[0] for who, v in row["values"].items()} for row in run["rows"]}
        known = {row.key: row for row in bounds.ROWS}
        keys = [row["key"] for row in run["rows"]]
        assert keys == [key for key in known if key in keys], "a run may be older than a row, and holds no other"
        for row, of in ((row, known[row["key"]]) for row in run["rows"]):
            for written, bound in zip(row["bounds"], of.bounds, strict=True):
                again = bound.judged(figures, run["backend"])
                assert written["holds"] == again["holds"], row["what"]
                if written["ratio"] is not None:
                    assert written["ratio"] == pytest.approx(again["ratio"], rel=2e-3), row["what"]


PAIR = "pair 1 MiB"


@pytest.mark.parametrize(("own", "holds"), [(20.0, True), (24.0, False)])
def test_a_bound_is_judged_by_its_peer(bounds: ModuleType, own: float, holds: bool) -> None:
    (bound,) = next(row for row in bounds.ROWS if row.key == PAIR).bounds
    judged = bound.judged({PAIR: {"portamem": own, "RMM arena": 150.0}}, "cuda")
    assert judged["holds"] is holds
    assert judged["ratio"] == own / 150.0


def test_a_bound_whose_peer_is_missing_neither_holds_nor_is_missed(bounds: ModuleType, page: ModuleType) -> None:
    (bound,) = next(row for row in bounds.ROWS if row.key == PAIR).bounds
    judged = bound.judged({PAIR: {"portamem": 15.8}}, "cuda")
    assert (judged["holds"], judged["missing"]) == (None, "RMM arena")
    assert judged["predicted"] == pytest.approx(0.1)
    run = {"backend": "cuda", "rows": [{"key": PAIR, "bounds": [judged]}]}
    assert page.judgement(run, PAIR, 0) == "not measured: needs RMM arena; predicted 0.1"


def test_a_bound_says_nothing_of_machines_that_it_is_not_meant_for(bounds: ModuleType, page: ModuleType) -> None:
    row = next(row for row in bounds.ROWS if row.key == "pinned start-up")
    (bound,) = row.bounds
    times = {"pinned start-up": {"portamem": 98.0, "HostMalloc": 100.0}}
    assert bound.judged(times, "cuda")["holds"] is False
    assert bound.judged(times | {bounds.REGISTERED: {"portamem": 1.0}}, "cuda")["holds"] is False
    judged = bound.judged(times | {bounds.REGISTERED: {"portamem": 0.0}}, "cuda")
    assert (judged["holds"], judged["ratio"]) == (None, 0.98)
    run = {"rows": [{"key": row.key, "bounds": [judged]}]}
    assert page.judgement(run, row.key, 0).startswith("0.98: no bound, as capabilities do not say")


def test_what_was_not_run_is_said_to_be_not_measured(page: ModuleType) -> None:
    text = page.page([])
    assert text.count("not measured yet") > 60
    assert "holds" not in text.replace("What has to hold", "")


def test_a_missed_bound_shows(page: ModuleType) -> None:
    judged = {"text": "at most 1 x malloc", "ratio": 1.5, "holds": False}
    run = {"backend": "host", "rows": [{"key": PAIR, "bounds": [judged]}]}
    assert page.judgement(run, PAIR, 0) == "**1.5: missed**"


def test_what_is_no_run_is_refused(page: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"format": 1}), encoding="utf-8")
    with pytest.raises(ValueError, match="neither a run"):
        page.read([path])


class Stat:
    """/proc/stat of a machine whose processors have done so many seconds of work."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, seconds: float) -> None:
        ticks = int(seconds * os.sysconf("SC_CLK_TCK"))
        self.path.write_text(f"cpu  {ticks} 0 0 99999 5 0 0 0 0 0\ncpu0 1 2 3\n", encoding="ascii")


def test_other_work_is_what_the_benchmark_did_not_do(page: ModuleType, tmp_path: Path, monkeypatch: Any) -> None:
    """Two processors of others, for ten seconds, beside three seconds of its own."""
    other_work = importlib.import_module("other_work")
    clock, own, stat = [100.0], [7.0], Stat(tmp_path / "stat")
    monkeypatch.setattr(other_work.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(other_work.os, "times", lambda: (own[0], 0.0, 0.0, 0.0, 0.0))
    stat.write(50)
    work = other_work.OtherWork(stat.path)
    clock[0], own[0] = 110.0, 10.0
    stat.write(73)
    assert work.processors() == pytest.approx(2)


def test_other_work_is_unknown_where_the_system_does_not_tell(page: ModuleType, tmp_path: Path) -> None:
    other_work = importlib.import_module("other_work")
    assert other_work.OtherWork(tmp_path / "absent").processors() is None


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (0.1, "idle otherwise (0.1 of 16"),
        (4.0, "**The machine had other work meanwhile** (4 of 16"),
        (None, "not known"),
    ],
)
def test_the_page_warns_of_other_work(page: ModuleType, others: float | None, said: str) -> None:
    assert said in page.busy({"other_work": others, "cpu": "16 of a processor"})


def test_a_load_is_not_taken_for_other_work(page: ModuleType) -> None:
    """It counts the build that had just ended, and the run's own threads."""
    said = page.busy({"load": [8.7, 1.7], "cpu": "16 of a processor"})
    assert "other work" not in said
    assert "8.7 before and 1.7 after" in said


def test_the_page_says_who_is_in_no_run(page: ModuleType, runs: list[dict[str, Any]]) -> None:
    said = "Umpire's QuickPool is in none of these runs"
    run = json.loads(json.dumps(page.tables(runs)[0]))
    for row in run["rows"]:
        row["values"].pop("Umpire QuickPool", None)
    assert said in page.page([run])
    run["rows"][0]["values"]["Umpire QuickPool"] = [1, 1, 1]
    assert said not in page.page([run])


def test_runs_of_two_machines_stand_side_by_side(page: ModuleType, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(page, "FOLDER", tmp_path / "runs")
    given = tmp_path / "given.json"
    bound = {"text": "at most 0.15 x RMM arena", "ratio": 0.125, "holds": True}
    row = {"key": PAIR, "what": "a pair", "unit": "ns", "values": {"portamem": [1, 1, 1]}, "bounds": [bound]}
    run = {"format": 1, "backend": "cuda", "on": "a GPU", "cpu": "2 of a processor", "python": "3.12", "rounds": 3}
    run |= {"when": "2000-01-01", "commit": "0", "other_work": 0.0, "rows": [row]}
    given.write_text(json.dumps(run), encoding="utf-8")
    page.add(given)
    given.write_text(json.dumps(run | {"on": "another GPU"}), encoding="utf-8")
    page.add(given, "other")
    runs = page.read(page.FOLDER.glob("*.json"))
    assert [each["name"] for each in runs] == ["cuda", "cuda-other"]
    text = page.page(runs)
    assert "| work | bound | cuda | cuda-other | hip | host |" in text
    assert "## cuda: a GPU" in text
    assert "## cuda-other: another GPU" in text
    assert "0.125: holds | 0.125: holds | not measured yet | not measured yet |" in text
