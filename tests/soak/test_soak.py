"""A short run of the soak, and that it sees what it is made to see."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers.process import run, run_python

SOAK = Path(__file__).with_name("soak.py")


def test_a_short_run(pm: ModuleType, tmp_path: Path) -> None:
    part = tmp_path / "part.json"
    done = run(sys.executable, str(SOAK), "--backend", pm.backend, "--seconds", "2", "--json", str(part))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(part.read_text(encoding="utf-8"))
    assert found["rows"] == [{"what": "soak", "backend": pm.backend, "result": "passed"}]
    counts = found["soak"][0]["counts"]
    for what in ("allocate", "foreign_use", "hand_over", "out of memory", "capture", "bytes verified"):
        assert counts[what] > 0, what


def test_everything_is_done_however_short_the_run(pm: ModuleType, tmp_path: Path) -> None:
    """A run does everything at least once, however busy the machine is."""
    part = tmp_path / "part.json"
    done = run(sys.executable, str(SOAK), "--backend", pm.backend, "--seconds", "0", "--json", str(part))
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(part.read_text(encoding="utf-8"))["soak"][0]["counts"]
    for what in ("allocate", "foreign_use", "hand_over", "out of memory", "capture", "bytes verified"):
        assert counts.get(what, 0) > 0, what


def test_it_needs_a_device(tmp_path: Path) -> None:
    """A backend that cannot be used is no pass."""
    done = run(sys.executable, str(SOAK), "--backend", "host", "--seconds", "1", "--devices", "0")
    assert done.returncode != 0
    assert "no device" in done.stderr


SPOILED = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import soak
    {spoil}
    sys.argv = ["soak", "--backend", sys.argv[2], "--seconds", "1", "--threads", "2"]
    sys.exit(soak.main())
"""

SPOILS = {
    "a wrong byte": (
        """
    before = soak.Worker.read
    def read(self, item, stream):
        item.buf[:1].fill(int(item.expected[0]) ^ 1)
        before(self, item, stream)
    soak.Worker.read = read
""",
        "of them are wrong",
    ),
    "lost memory": (
        """
    lost = []
    before = soak.Worker.registration
    def registration(self):
        lost.append(self.pm.DeviceMemoryResource(self.device).allocate(4096))
        before(self)
    soak.Worker.registration = registration
""",
        "portamem holds",
    ),
}


@pytest.mark.parametrize("name", SPOILS)
def test_it_sees(pm: ModuleType, name: str) -> None:
    spoil, message = SPOILS[name]
    done = run_python(SPOILED.format(spoil=spoil.strip()), str(SOAK.parent), pm.backend)
    assert done.returncode == 1, done.stdout + done.stderr
    assert message in done.stderr
