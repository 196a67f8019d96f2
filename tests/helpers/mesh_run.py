"""The output of an adaptive mesh with --json: the same form and the same claims from Python and from C++."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.process import run_python

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def read(path: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert run["format"] == 1
    return run


def check(run: dict[str, Any]) -> None:
    """The same bits on both resources, arrays that grow and shrink, and figures that add up."""
    plain, pool = run["runs"]
    assert (plain["name"], pool["name"]) == ("plain", "pool")
    assert plain["checksum"] == pool["checksum"]
    assert plain["allocations"] == pool["allocations"] > 300
    assert pool["runtime calls"] < plain["runtime calls"] // 10
    for each in (plain, pool):
        assert each["worst error"] < 1e-12
        first, most, last = each["blocks"]
        assert first < most
        assert last < most
        series = each["series"]
        assert [entry[0] for entry in series] == list(range(len(series)))
        assert 2 * each["allocations"] - 10 <= len(series) <= 2 * each["allocations"]  # some may be out at the end
        assert max(live for _, live, _ in series) == each["peak live"]
        assert max(reserved for *_, reserved in series) == each["peak reserved"]
        assert all(reserved >= live for _, live, reserved in series)
        assert 0 < each["seconds"] < each["seconds in all"]


PAGE = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import page
    page.FOLDER = Path(sys.argv[3])
    page.add(Path(sys.argv[2]))
    runs = page.read(page.FOLDER.glob("*.json"))
    text = page.page(runs)
    (name,) = page.drawn(runs)
    assert f"](performance/{name})" in text, name
    assert runs[0]["runs"][0]["checksum"] in text
    print(*sorted(path.name for path in page.FOLDER.iterdir()), name)
"""


def check_page(path: Path, folder: Path) -> None:
    """benchmarks/page.py takes the run in, says what it cost and draws it."""
    if not BENCHMARKS.is_dir():
        pytest.skip("a source distribution leaves benchmarks and docs out")
    run = read(path)
    done = run_python(PAGE, str(BENCHMARKS), str(path), str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    name = run["program"].rpartition("/")[2]
    assert done.stdout.split() == [f"{name}-{run['backend']}.json", f"{run['backend']}-{name}.svg"]
