"""ci/missing_packages.py names what the tests would fail for, however far behind it is.

Each run sees a folder of packages that are no more than what they say of themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "ci" / "missing_packages.py"


def package(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {each}" for each in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")


def said(folder: Path, wanted: str) -> str:
    if not SCRIPT.exists():
        pytest.skip("the sources of portamem are not here")
    env = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, str(SCRIPT), wanted]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(done.stderr), done
    return done.stderr.removeprefix("packages are missing: ").strip()


def test_nothing_is_said_where_all_are_here(tmp_path: Path) -> None:
    package(tmp_path, "pmt_top", "1.0", "pmt-below>=2; extra == 'test'")
    package(tmp_path, "pmt_below", "2.1", "PMT.Top")  # a circle, by another spelling
    assert said(tmp_path, "pmt-top[test]") == ""


def test_the_needs_of_needs_are_followed(tmp_path: Path) -> None:
    package(tmp_path, "pmt_top", "1.0", "pmt-below; extra == 'test'")
    package(tmp_path, "pmt_below", "2.1", "pmt-deep>=0.1")
    assert said(tmp_path, "pmt-top[test]") == "pmt-deep is not here, and pmt-below needs it"


def test_a_version_that_will_not_do(tmp_path: Path) -> None:
    package(tmp_path, "pmt_top", "1.0", "pmt-below==3.1.*")
    package(tmp_path, "pmt_below", "3.0")
    assert said(tmp_path, "pmt-top") == "pmt-below 3.0 is here, and pmt-top needs ==3.1.*"


def test_what_nobody_asked_for_is_not_missed(tmp_path: Path) -> None:
    package(tmp_path, "pmt_top", "1.0", "pmt-a; extra == 'doc'", "pmt-b; python_version < '3'")
    assert said(tmp_path, "pmt-top") == ""


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    package(tmp_path, "pmt_top", "1.0", "pmt-a", "pmt-b")
    both = [f"pmt-{name} is not here, and pmt-top needs it" for name in "ab"]
    assert said(tmp_path, "pmt-top") == "; ".join(both)
    assert said(tmp_path, "pmt-else[x]") == "pmt-else is not here"
