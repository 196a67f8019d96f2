"""tools/report.py: what a stage found becomes a report that names no machine and hides no failure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.process import run

ROOT = Path(__file__).parent.parent
CASES = {
    "passed": '<testcase classname="a" name="one"/>',
    "failed": '<testcase classname="a" name="two"><failure message="boom">ROOT/tests/a.py:3</failure></testcase>',
    "broken": '<testcase classname="a" name="three"><error message="no fixture"/></testcase>',
    "skipped": '<testcase classname="a" name="four"><skipped type="pytest.skip" message="one device here"/></testcase>',
    "expected": '<testcase classname="a" name="five"><skipped type="pytest.xfail" message="known"/></testcase>',
}


def junit(folder: Path, *names: str) -> Path:
    cases = "".join(CASES[name] for name in names).replace("ROOT", str(ROOT))
    path = folder / "tests.xml"
    path.write_text(f'<testsuites><testsuite name="t" hostname="secret">{cases}</testsuite></testsuites>', "utf-8")
    return path


def report(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = run(sys.executable, str(ROOT / "tools" / "report.py"), "stage", "--out", str(folder), *arguments)
    assert not done.stderr, done.stderr
    return done.returncode, json.loads((folder / "stage.json").read_text(encoding="utf-8"))


def test_counts_and_skips(tmp_path: Path) -> None:
    path = junit(tmp_path, "passed", "passed", "skipped", "expected")
    code, found = report(tmp_path, "--seconds", "7", "--tests", "host", "Python tests", str(path))
    assert code == 0
    (row,) = found["rows"]
    assert {"kind": "here", "backend": "host", "result": "passed"}.items() <= row.items()
    assert row["counts"] == {"passed": 3, "failed": 0, "skipped": 1}
    assert row["skips"] == [{"reason": "one device here", "count": 1}]
    assert (found["format"], found["seconds"]) == (1, 7)


def test_failures_and_errors_fail(tmp_path: Path) -> None:
    code, found = report(tmp_path, "--tests", "host", "t", str(junit(tmp_path, "passed", "failed", "broken")))
    assert code == 1
    (row,) = found["rows"]
    assert (row["result"], row["counts"]["failed"]) == ("failed", 2)
    assert "a::two: boom ./tests/a.py:3" in row["failures"]


@pytest.mark.parametrize("names", [[], ["skipped"]], ids=["nothing", "all skipped"])
def test_a_run_of_nothing_failed(tmp_path: Path, names: list[str]) -> None:
    assert report(tmp_path, "--tests", "host", "t", str(junit(tmp_path, *names)))[0] == 1


@pytest.mark.parametrize("content", [None, "", "<testsuites><testsuite>"])
def test_a_run_that_broke_off_failed(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tests.xml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    code, found = report(tmp_path, "--tests", "host", "t", str(path), "--ran", "host", "u", "0")
    assert code == 1
    assert [row["result"] for row in found["rows"]] == ["failed", "passed"]


def test_exits_and_parts(tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    part.write_text(json.dumps({"rows": [{"what": "p", "backend": "host", "result": "passed"}], "bench": [1]}), "utf-8")
    arguments = ["--part", str(part), "--part", str(part), "--not-run", "hip", "n", "no headers", "--kind", "compiled"]
    code, found = report(tmp_path, *arguments)
    assert code == 0
    assert [row["result"] for row in found["rows"]] == ["not run: no headers", "passed", "passed"]
    assert {row["kind"] for row in found["rows"]} == {"compiled"}
    assert found["bench"] == [1, 1]
    assert report(tmp_path, "--ran", "host", "demo", "3")[0] == 1


def test_no_names_of_the_machine(tmp_path: Path) -> None:
    path = junit(tmp_path, "failed")
    report(tmp_path, "--tests", "host", "t", str(path))
    for file in (path, tmp_path / "stage.json"):
        text = file.read_text(encoding="utf-8")
        assert "secret" not in text
        assert str(ROOT) not in text
