"""The sources of ci/docs.sh's site: pictures are the drawn ones, and every public name has a place on a page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import portamem

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(autouse=True)
def _skip_without_docs() -> None:
    if not DOCS.exists():
        pytest.skip("a source distribution leaves docs and evidence out")


def checks_pictures(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "make.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_committed_pictures_are_the_drawn_ones() -> None:
    done = checks_pictures(DOCS / "pictures")
    assert done.returncode == 0, done.stderr


def test_a_picture_that_was_changed_by_hand_is_found(tmp_path: Path) -> None:
    copied = tmp_path / "pictures"
    shutil.copytree(DOCS / "pictures", copied)
    with (copied / "layers.svg").open("a", encoding="utf-8") as file:
        file.write("<!-- changed -->\n")
    done = checks_pictures(copied)
    assert done.returncode != 0
    assert "layers.svg" in done.stderr


def documented(folder: Path) -> set[str]:
    """The names that the pages of a folder document."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in folder.glob("*.md"))
    directive = re.compile(r"(?:^\.\. auto(?:class|function|data)::|^```\{py:data\}) portamem\.(\w+)$", re.MULTILINE)
    return set(directive.findall(text))


def test_every_public_name_is_on_a_page() -> None:
    assert set(portamem.__all__) - documented(DOCS / "api") == set()


def test_a_name_without_a_page_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```{eval-rst}\n.. autoclass:: portamem.Buffer\n```\n", encoding="utf-8")
    assert documented(tmp_path) == {"Buffer"}


def test_every_page_is_in_the_tree_of_the_site() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set("\n".join(re.findall(r"^```\{toctree\}\n(.*?)^```", index, re.DOTALL | re.MULTILINE)).split("\n"))
    found = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.glob("**/*.md")} - {"index"}
    assert found - listed == set()
