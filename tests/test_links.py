"""Every relative link of the pages leads to a file that is there, and to a heading of it where one is named."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parent.parent

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    folders = ("docs", "evidence", "examples", "benchmarks")
    within = [page for folder in folders for page in sorted((root / folder).glob("**/*.md"))]
    return [page for name in ("README.md", "CONTRIBUTING.md") if (page := root / name).exists()] + within


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts and Sphinx make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    text = page.read_text(encoding="utf-8")
    for link in LINK.findall(CODE.sub("", FENCE.sub("", text))):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / unquote(path)).resolve() if path else page
        if not target.exists():
            found.append(f"{page.name}: {link}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{page.name}: {link}: there is no such heading")
    return found


@pytest.fixture(scope="module")
def root() -> Path:
    if not (ROOT / "docs").exists() or not (ROOT / "evidence").exists():
        pytest.skip("a source distribution leaves docs and evidence out")
    return ROOT


def test_every_link_leads_somewhere(root: Path) -> None:
    found = pages(root)
    assert len(found) > 30
    assert not [link for page in found for link in broken(page)]


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [
        ("[a](there.md)", False),
        ("[a](there.md#a-heading-of-it)", False),
        ("[a](#own)\n\n# Own", False),
        ("[a](https://example.org/x)", False),
        ("```\n[a](nowhere.md)\n```", False),
        ("`[a](nowhere.md)`", False),
        ("[a](nowhere.md)", True),
        ("![a](nowhere.svg)", True),
        ("[a](there.md#nothing)", True),
        ("[a](#nothing)", True),
    ],
)
def test_a_planted_link_is_judged(tmp_path: Path, text: str, is_broken: bool) -> None:
    (tmp_path / "there.md").write_text("# There\n\n## A `heading` of it\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(text + "\n", encoding="utf-8")
    assert bool(broken(page)) == is_broken
