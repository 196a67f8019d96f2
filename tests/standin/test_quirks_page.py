"""tools/quirks.py: which clause notices which quirk, and which holds with it, from what the runs said."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.script import load_script

from portamem.conformance import contract

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "quirks.py"
PAGE = ROOT / "evidence" / "quirks.md"
PORTAMEMS_TABLE = ROOT / "csrc" / "include" / "portamem" / "quirks.hpp"
STANDINS_TABLE = Path(__file__).parent / "quirks.cpp"

ABIS = ("5.2", "6.1", "7.1")
CLAUSE = re.compile(r"\b[A-Z]+-\d\d\b")
THREAD = re.compile(r"([\w.-]+/[\w.-]+)((?:, )?#\d+)+")

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the sources of portamem are not here")


@pytest.fixture(scope="module")
def quirks() -> ModuleType:
    return load_script(SCRIPT)


REPORT = {
    "clauses": [
        {"id": "ALLOC-01", "backend": "hip", "outcome": "pass", "cases": []},
        {"id": "ALLOC-02", "backend": "hip", "outcome": "fail", "cases": []},
        {"id": "ALLOC-01", "backend": "host", "outcome": "fail", "cases": []},
    ]
}


def test_outcomes_are_of_one_backend(quirks: ModuleType) -> None:
    assert quirks.outcomes_of(REPORT) == {"ALLOC-01": "pass", "ALLOC-02": "fail"}


@pytest.mark.parametrize(
    ("outcome", "cases", "seen"),
    [
        ("not-shown", ["pass", "not-shown"], "pass"),
        ("not-shown", ["pass", "emulated", "not-shown"], "emulated"),
        ("not-shown", ["emulated", "defect", "not-shown"], "defect"),
        ("not-shown", ["defect", "fail"], "fail"),
        ("not-shown", ["not-shown", "unsupported"], "not-shown"),
        ("unsupported", ["unsupported"], "unsupported"),
        ("fail", ["pass"], "fail"),
        ("not-shown", [], "not-shown"),
    ],
)
def test_what_was_seen_counts(quirks: ModuleType, outcome: str, cases: list[str], seen: str) -> None:
    """A part that could not be seen does not hide what the other parts saw."""
    clause = {"id": "A", "backend": "hip", "outcome": outcome, "cases": [{"outcome": each} for each in cases]}
    assert quirks.outcomes_of({"clauses": [clause]}) == {"A": seen}


def test_a_clause_that_fails_says_why(quirks: ModuleType) -> None:
    cases = [
        {"outcome": "pass", "check": "free.good", "resource": "pinned", "detail": ""},
        {"outcome": "fail", "check": "free.bad", "resource": "device", "detail": "3 and not 4"},
        {"outcome": "fail", "check": "free.bad", "resource": "pinned", "detail": "5 and not 4"},
    ]
    reasons = quirks.reasons_of({"clauses": [{"id": "A", "backend": "hip", "outcome": "fail", "cases": cases}]})
    run = quirks.Run({"A": "fail"}, reasons=reasons)
    assert quirks.faults("HIP 5.2", run) == ["HIP 5.2: fail: A\n    A free.bad [device]: 3 and not 4"]


def test_what_changes_is_noticed(quirks: ModuleType) -> None:
    found = quirks.noticed({"A": "fail", "B": "pass", "C": "pass"}, {"A": "pass", "B": "pass", "D": "unsupported"})
    assert found == {"A": "pass → fail", "C": "absent → pass", "D": "unsupported → absent"}


def make(
    quirks: ModuleType, abi: str, *, by_default: bool, plain: dict[str, str], turned: object, told: object = None
) -> Any:
    quirk = quirks.Quirk("loses_things", "things are lost", "somewhere#1", by_default)
    telling = {"loses_things": told} if told else {}
    return quirks.Standin(abi, [quirk], quirks.Run(plain), {"loses_things": turned}, telling)


def page(quirks: ModuleType, *standins: Any, **bridge: Any) -> str:
    text = quirks.page(standins, {"loses_things": quirks.Bridge(**bridge)})
    assert isinstance(text, str)
    return text


def row(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith("| `loses_things`"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def faults(quirks: ModuleType, standin: Any, **bridge: Any) -> list[str]:
    return list(quirks.faults_over(standin, {"loses_things": quirks.Bridge(**bridge)}))


def test_the_direction_is_that_of_the_quirk(quirks: ModuleType) -> None:
    """A run without a quirk that is on by default is compared the other way round."""
    on = make(quirks, "5.2", by_default=True, plain={"A": "fail"}, turned=quirks.Run({"A": "pass"}))
    off = make(quirks, "6.1", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "fail"}))
    cells = row(page(quirks, on, off, why_none="nothing is bridged"))
    expected = ["`loses_things`", "things are lost", "5.2", "pass → fail: A", "nothing is bridged", "somewhere#1"]
    assert cells == expected


def test_where_it_is_noticed(quirks: ModuleType) -> None:
    seen = make(quirks, "5.2", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "defect"}))
    unseen = make(quirks, "7.1", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "pass"}))
    assert row(page(quirks, seen, unseen))[2:4] == ["nowhere", "pass → defect on 5.2: A"]
    assert row(page(quirks, unseen))[3] == "none"


def test_clauses_that_change_alike_are_told_together(quirks: ModuleType) -> None:
    turned = quirks.Run({"A": "fail", "B": "fail", "C": "unsupported"})
    seen = make(quirks, "5.2", by_default=False, plain={"A": "pass", "B": "pass", "C": "pass"}, turned=turned)
    assert row(page(quirks, seen))[3] == "pass → fail: A, B<br>pass → unsupported: C"


def test_a_run_that_ends_badly_is_told(quirks: ModuleType) -> None:
    """Such a run is not taken for one in which every clause changed."""
    ended = quirks.Run(trouble="ended with exit code 139 and no report")
    standin = make(quirks, "5.2", by_default=False, plain={"A": "pass"}, turned=ended)
    text = page(quirks, standin, clauses=("A",))
    assert row(text)[3:5] == ["5.2: the run with it ended with exit code 139 and no report", "not on 5.2: A (absent)"]
    assert "| 5.2 | none | none |" in text
    expected = ["HIP 5.2, loses_things on: the run ended with exit code 139 and no report"]
    assert faults(quirks, standin, clauses=("A",)) == expected


def test_what_holds_all_the_same(quirks: ModuleType) -> None:
    """It is looked up in the run with the quirk on, which may be the plain one."""
    on = make(quirks, "5.2", by_default=True, plain={"A": "pass", "B": "emulated"}, turned=quirks.Run({"A": "pass"}))
    off = make(quirks, "7.1", by_default=False, plain={}, turned=quirks.Run({"A": "pass", "B": "defect"}))
    assert row(page(quirks, on, clauses=("A", "B")))[4] == "A, B"
    assert row(page(quirks, on, off, clauses=("A", "B")))[4] == "A<br>not on 7.1: B (defect)"


def test_what_portamem_was_told_of(quirks: ModuleType) -> None:
    """Untold, the clauses may fail, and no others; told, they hold."""
    bridge = {"clauses": ("A",), "told": "loses_things=on"}
    turned, told = quirks.Run({"A": "fail", "B": "fail"}), quirks.Run({"A": "pass"})
    standin = make(quirks, "5.2", by_default=False, plain={"A": "pass", "B": "pass"}, turned=turned, told=told)
    cells = row(page(quirks, standin, **bridge))
    assert cells[3:5] == ["pass → fail: A, B", "A; with `PORTAMEM_QUIRKS=loses_things=on`"]
    bridge["notices"] = ("A", "B")
    assert faults(quirks, standin, **bridge) == ["HIP 5.2, loses_things on: fail: B"]
    standin.told["loses_things"] = quirks.Run({"A": "fail"})
    what = "HIP 5.2, loses_things on, PORTAMEM_QUIRKS=loses_things=on"
    assert faults(quirks, standin, **bridge) == [
        f"{what}: fail: A",
        f"{what}: bridged, and does not hold: A (fail)",
        "HIP 5.2, loses_things on: fail: B",
    ]


@pytest.mark.parametrize("by_default", [False, True])
def test_a_clause_that_fails_is_a_fault_either_way(quirks: ModuleType, by_default: bool) -> None:
    bad, good, words = quirks.Run({"A": "fail"}), {"A": "pass"}, f"loses_things {'off' if by_default else 'on'}"
    turned = make(quirks, "5.2", by_default=by_default, plain=good, turned=bad)
    assert faults(quirks, turned, notices=("A",)) == [f"HIP 5.2, {words}: fail: A"]
    plain = make(quirks, "5.2", by_default=by_default, plain={"A": "fail"}, turned=quirks.Run(good))
    assert faults(quirks, plain, notices=("A",)) == ["HIP 5.2 as it is said to be: fail: A"]


def test_a_defect_is_a_fault_of_bridged_clauses_alone(quirks: ModuleType) -> None:
    standin = make(quirks, "5.2", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "defect"}))
    assert faults(quirks, standin, notices=("A",)) == []
    missed = ["HIP 5.2, loses_things on: bridged, and does not hold: A (defect)"]
    assert faults(quirks, standin, clauses=("A",), notices=("A",)) == missed
    standin = make(quirks, "5.2", by_default=True, plain={"A": "unsupported"}, turned=quirks.Run({"A": "pass"}))
    missed = ["HIP 5.2 as it is said to be: bridged, and does not hold: A (unsupported)"]
    assert faults(quirks, standin, clauses=("A",), notices=("A",)) == missed


def test_a_defect_fails_where_its_version_is_not_known_to_have_it(quirks: ModuleType) -> None:
    standin = make(quirks, "5.2", by_default=False, plain={"A": "pass"}, turned=quirks.Run({"A": "fail", "B": "fail"}))
    assert faults(quirks, standin, defects=("A",), notices=("A", "B")) == ["HIP 5.2, loses_things on: fail: B"]
    plain = make(quirks, "5.2", by_default=False, plain={"A": "fail"}, turned=quirks.Run({"A": "fail"}))
    assert faults(quirks, plain, defects=("A",)) == ["HIP 5.2 as it is said to be: fail: A"]


@pytest.mark.parametrize("by_default", [False, True])
def test_a_clause_that_is_to_notice_and_does_not_is_a_fault(quirks: ModuleType, by_default: bool) -> None:
    same = quirks.Run({"A": "pass", "B": "unsupported"})
    standin = make(quirks, "5.2", by_default=by_default, plain={"A": "pass", "B": "pass"}, turned=same)
    what = f"HIP 5.2, loses_things {'off' if by_default else 'on'}"
    missed = f"{what}: is to be noticed, and is not: A"
    more = f"{what}: notices it, and BRIDGES does not say so: B"
    assert faults(quirks, standin, notices=("B",)) == []
    assert faults(quirks, standin, notices=("A", "B")) == [missed]
    assert faults(quirks, standin) == [more]
    assert faults(quirks, standin, notices=("A",)) == [missed, more]


def test_what_is_noticed_over_some_standins_only(quirks: ModuleType) -> None:
    bridge = {"notices": ("A",), "notices_on": {"7.1": ("B",)}}
    for abi, seen in (("5.2", "pass"), ("7.1", "unsupported")):
        turned = quirks.Run({"A": "unsupported", "B": seen})
        standin = make(quirks, abi, by_default=False, plain={"A": "pass", "B": "pass"}, turned=turned)
        assert faults(quirks, standin, **bridge) == []
    standin.abi = "6.1"
    assert faults(quirks, standin, **bridge) == ["HIP 6.1, loses_things on: notices it, and BRIDGES does not say so: B"]


def test_clauses_that_were_not_run_with_a_quirk_notice_nothing(quirks: ModuleType) -> None:
    """A run with --check runs few clauses; one that was to be run, and is not there, shows."""
    turned = quirks.Run({"B": "fail", "C": "pass"})
    standin = make(quirks, "5.2", by_default=False, plain={"A": "pass", "B": "pass", "C": "pass"}, turned=turned)
    assert faults(quirks, standin, defects=("B",), notices=("B",), near=("C",)) == []
    missed = ["HIP 5.2, loses_things on: is to be noticed, and is not: D"]
    assert faults(quirks, standin, defects=("B",), notices=("B", "D")) == missed


def test_without_its_bridge_each_clause_fails(quirks: ModuleType) -> None:
    standin = make(quirks, "5.2", by_default=False, plain={"A": "pass", "B": "pass"}, turned=quirks.Run({"A": "pass"}))
    bridge = {"clauses": ("A", "B"), "untold": "loses_things=off"}
    standin.turned["loses_things"] = quirks.Run({"A": "pass", "B": "pass"})
    standin.untold["loses_things"] = quirks.Run({"A": "fail", "B": "fail"})
    assert faults(quirks, standin, **bridge) == []
    assert row(page(quirks, standin, **bridge))[4] == "A, B; with `PORTAMEM_QUIRKS=loses_things=off` each of them fails"
    what = "HIP 5.2, loses_things on, PORTAMEM_QUIRKS=loses_things=off"
    standin.untold["loses_things"] = quirks.Run({"A": "fail", "B": "pass"})
    assert faults(quirks, standin, **bridge) == [f"{what}: nothing is bridged, and these do not fail: B"]
    standin.untold["loses_things"] = quirks.Run(trouble="ended with exit code 139 and no report")
    assert faults(quirks, standin, **bridge)[0] == f"{what}: the run ended with exit code 139 and no report"


def test_a_run_that_told_nothing_is_a_fault(quirks: ModuleType) -> None:
    standin = make(quirks, "5.2", by_default=False, plain={}, turned=quirks.Run({"A": "pass"}))
    assert faults(quirks, standin) == ["HIP 5.2 as it is said to be: the run told nothing"]


def test_the_table_of_bridges_is_of_every_quirk(quirks: ModuleType) -> None:
    """Either clauses of the contract, or why there are none."""
    names = [quirk.name for quirk in table_of(quirks, "7.1")]
    assert len(names) > 10
    assert list(quirks.BRIDGES) == names
    for bridge in quirks.BRIDGES.values():
        assert bool(bridge.clauses) != bool(bridge.why_none)
        for abi in ABIS:
            assert bridge.concerned(abi), "with --check each quirk is switched"
            assert [clause for clause in bridge.concerned(abi) if clause not in contract.clauses()] == []
        assert set(bridge.defects) <= set(bridge.notices)


def table_of(quirks: ModuleType, abi: str) -> list[Any]:
    """The rows of tests/standin/quirks.cpp, as the stand-in of a version has them."""
    text = r'((?:"[^"]*"\s*)+)'
    rows = re.findall(
        rf'^    \{{"(\w+)",\s*{text},\s*{text},\s*([^{{}}]+?)\}},$', STANDINS_TABLE.read_text(), re.MULTILINE
    )
    major, minor = map(int, abi.split("."))
    names = {
        "true": True,
        "false": False,
        "before": lambda other: major < other,
        "HIP_VERSION_MAJOR": major,
        "HIP_VERSION_MINOR": minor,
        "HIP_VERSION": major * 10_000_000 + minor * 100_000,
    }
    return [
        quirks.Quirk(name, joined(about), joined(source), eval(default.replace("&&", "and"), names))
        for name, about, source, default in rows
    ]


def joined(literals: str) -> str:
    return "".join(re.findall(r'"([^"]*)"', literals))


@pytest.fixture(scope="module")
def written() -> dict[str, list[str]]:
    """The rows of evidence/quirks.md by what they are about: versions of HIP, and quirks."""
    if not PAGE.exists():
        pytest.skip("a source distribution leaves docs and evidence out")
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {cells[0].strip("`"): cells for cells in rows if cells[0] not in ("HIP", "quirk")}


def test_what_the_page_says_of_each_quirk_is_what_the_table_says(
    quirks: ModuleType, written: dict[str, list[str]]
) -> None:
    """All that no run is needed for: its words, and which quirks there are, where each is on, and where it is from."""
    standins = [quirks.Standin(abi, table_of(quirks, abi), quirks.Run(), {}) for abi in ABIS]
    for standin in standins:
        standin.turned = {quirk.name: quirks.Run() for quirk in standin.quirks}
    generated = quirks.page(standins, quirks.BRIDGES)
    assert PAGE.read_text(encoding="utf-8").partition("| HIP |")[0] == generated.partition("| HIP |")[0]
    assert list(written) == [*ABIS, *quirks.BRIDGES]
    for line in generated.splitlines():
        if line.startswith("| `"):
            name, about, default, _, _, source = (cell.strip() for cell in line.strip("|").split(" | "))
            cells = written[name.strip("`")]
            assert (cells[1], cells[2], cells[5]) == (about, default, source), f"{name}: run ci/standins.sh quirks"


def test_the_clauses_of_each_quirk_on_the_page_are_those_of_the_bridges(
    quirks: ModuleType, written: dict[str, list[str]]
) -> None:
    for name, bridge in quirks.BRIDGES.items():
        who_notices, who_holds = written[name][3:5]
        noticed_somewhere = {clause for abi in ABIS for clause in bridge.noticed_by(abi)}
        assert set(CLAUSE.findall(who_notices)) == noticed_somewhere, name
        assert set(CLAUSE.findall(who_holds)) == {*bridge.clauses, *CLAUSE.findall(bridge.why_none)}, name
        assert bridge.why_none in who_holds, name
        for switch in filter(None, (bridge.told, bridge.untold)):
            assert f"`PORTAMEM_QUIRKS={switch}`" in who_holds, name


def test_the_first_table_names_clauses_of_hip(written: dict[str, list[str]]) -> None:
    """The table counts none: a count would be wrong with the next clause."""
    clauses = contract.clauses()
    for abi in ABIS:
        cell = written[abi][1]
        assert not re.search(r"\d+ (pass|emulated|unsupported|not-shown|defect)", cell)
        for line in cell.split("<br>"):
            outcome, _, ids = line.partition(": ")
            for id in ids.split(", "):
                assert "hip" in clauses[id].backends, f"{abi}: {id} is {outcome}"
                if outcome == "unsupported":
                    assert any(each.answer == "capability" for each in clauses[id].shortfalls), f"{abi}: {id}"
                if outcome == "defect":
                    assert clauses[id].defects, f"{abi}: {id}"


def threads(text: str) -> set[str]:
    """The threads that a text names as owner/name#number, or by the address of that."""
    text = re.sub(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/", r"\1#", text)
    return {
        f"{found[1]}{number}".lower() for found in THREAD.finditer(text) for number in re.findall(r"#\d+", found[0])
    }


def references(source: str) -> set[str]:
    """The threads of a source and the documents that it names, down to the call."""
    parts = {re.sub(r" \([^)]*\)$", "", part).lower() for part in source.split("; ")}
    return threads(source) | {part for part in parts if "," in part and not threads(part)}


def test_references_of_a_source() -> None:
    assert references("ROCm/HIP#1, #2 (5.7); https://github.com/a/b.jl/pull/3") == {
        "rocm/hip#1",
        "rocm/hip#2",
        "a/b.jl#3",
    }
    assert references("ROCm/clr a/b.cpp, hipFree (5.6 to 7.x); words") == {"rocm/clr a/b.cpp, hipfree"}


def test_a_clause_says_of_each_quirk_what_is_bridged_and_who_reported_it(quirks: ModuleType) -> None:
    clauses = contract.clauses()
    for quirk in table_of(quirks, "7.1"):
        bridged = [clauses[id] for id in quirks.BRIDGES[quirk.name].clauses]
        notes = [each for clause in bridged for each in clause.shortfalls if each.vendor in ("amd", "both")]
        told = set().union(*(references(each.source) for each in notes))
        assert not bridged or references(quirk.source) & told, f"{quirk.name}: no clause names {quirk.source}"


def test_a_clause_names_a_thread_of_each_quirk_that_portamem_knows() -> None:
    rows = re.findall(r'\{"(\w+)", PORTAMEM_BACKEND_\w+,.*?"([^"]+)"\},\n', PORTAMEMS_TABLE.read_text(), re.DOTALL)
    assert len(rows) > 5
    told = set()
    for clause in contract.clauses().values():
        for note in clause.shortfalls:
            told |= threads(note.source)
        for defect in clause.defects:
            told |= threads(f"{defect.thread} {defect.versions}")
    for name, thread in rows:
        assert threads(thread) & told, f"{name}: no clause names {thread}"


@pytest.mark.parametrize("outcome", ["pass", "fail"])
def test_the_page_is_written_before_a_failure_is_told(
    quirks: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str
) -> None:
    """The reports are there already: no stand-in is needed."""
    reports = tmp_path / "5.2" / "reports"
    reports.mkdir(parents=True)
    for name, result in (("plain", "pass"), ("free_waits", outcome)):
        clauses = [
            {"id": clause, "backend": "hip", "outcome": result, "cases": []}
            for clause in quirks.BRIDGES["free_waits"].clauses
        ]
        report = {"backends": {"hip": {"witnesses": ["hip-python 6.2"]}}, "clauses": clauses}
        (reports / f"conformance-{name}.json").write_text(json.dumps(report))
    table = [quirks.Quirk("free_waits", "Free waits", "somewhere#1", False)]
    monkeypatch.setattr(quirks, "quirks_of", lambda folder: table)
    written = tmp_path / "quirks.md"
    monkeypatch.setattr(sys, "argv", ["quirks.py", "--standins", str(tmp_path), "--write", str(written), "5.2"])
    if outcome == "pass":
        quirks.main()
    else:
        with pytest.raises(SystemExit, match="free_waits on: fail: FREE-09"):
            quirks.main()
    assert "| 5.2 | none | hip-python 6.2 |" in written.read_text()
