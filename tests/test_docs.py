"""The Python of README.md and docs/ runs as it stands, each block in the namespace of the blocks before it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.process import run_python

ROOT = Path(__file__).parent.parent


def blocks(page: Path) -> list[str]:
    """The fenced blocks marked ``python``, without those marked as not for the host (``python gpu``)."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if blocks(page)]


def test_there_is_a_readme_with_python_in_it() -> None:
    assert blocks(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_python_runs(page: Path) -> None:
    done = run_python("\n".join(blocks(page)), PORTAMEM_BACKEND="host", PORTAMEM_REQUIRE=None)
    assert done.returncode == 0, done.stderr
