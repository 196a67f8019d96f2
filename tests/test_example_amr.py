"""examples/amr: the same bits on a pool and on plain memory, nothing lost, and figures that add up."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest
from helpers import mesh_run
from helpers.process import run, run_python

EXAMPLE = Path(__file__).parent.parent / "examples" / "amr"
SMALL = ("--steps", "45", "--cells", "8", "--levels", "3")


@pytest.fixture(scope="module")
def written(pm: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("amr") / "figures.json"
    done = run(sys.executable, str(EXAMPLE / "amr.py"), "--backend", pm.backend, *SMALL, "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    return file


def test_its_run(written: Path, pm: ModuleType) -> None:
    run_of = mesh_run.read(written)
    assert (run_of["program"], run_of["backend"], run_of["steps"]) == ("examples/amr", pm.backend, 45)
    mesh_run.check(run_of)


def test_its_run_is_one_for_the_page_of_performance(written: Path, tmp_path: Path) -> None:
    mesh_run.check_page(written, tmp_path)


def test_it_draws_memory_over_time(pm: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "memory.svg"
    done = run(sys.executable, str(EXAMPLE / "amr.py"), "--backend", pm.backend, *SMALL, "--svg", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    text = file.read_text(encoding="utf-8")
    assert ET.fromstring(text).tag.endswith("svg")
    assert "in use" in text
    assert "reserved by the pool" in text


SPOILED = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import amr, solver
    {spoil}
    sys.argv = ["amr", "--backend", sys.argv[2], "--steps", "6", "--cells", "8", "--levels", "3"]
    sys.exit(amr.main())
"""

SPOILS = {
    "dye that comes from nowhere": (
        "solver.Solver.amount = lambda self, amount=solver.Solver.amount: amount(self) * (1 + 1e-6 * self.steps)",
        "of the dye came or went",
    ),
    "a wrong bit in one of the runs": (
        "seen = []\n"
        "    def step(self, before=solver.Solver.step):\n"
        "        before(self)\n"
        "        seen.append(self)\n"
        "        if len(seen) == amr.FIRST_STEPS + 12: self.state.buffer[:1].fill(1)\n"
        "    solver.Solver.step = step",
        "the runs end with other bits",
    ),
}


@pytest.mark.parametrize("name", SPOILS)
def test_it_sees(pm: ModuleType, name: str) -> None:
    spoil, message = SPOILS[name]
    done = run_python(SPOILED.format(spoil=spoil), str(EXAMPLE), pm.backend)
    assert done.returncode == 1, done.stdout + done.stderr
    assert message in done.stderr
