"""The CI templates of docs/guide/ci have the shape of their service, and use options that portamem has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.process import run_python

FOLDER = Path(__file__).parent.parent / "docs" / "guide" / "ci"
TEMPLATES = ("github.yml", "gitlab.yml", "Jenkinsfile")


@pytest.fixture(autouse=True)
def _skip_without_docs() -> None:
    if not FOLDER.exists():
        pytest.skip("a source distribution leaves docs and evidence out")


def faults_of_yaml(text: str) -> list[str]:
    """Finds what breaks the plain YAML that templates are written in: keys, lists and literal blocks, indented by
    spaces."""
    faults = []
    indents = [0]
    block: int | None = None  # the indent of the key that a literal block belongs to
    opens = True
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if not content or content.startswith("#"):
            continue
        if block is not None and indent > block:
            continue
        block = None
        if "\t" in line:
            faults.append(f"line {number}: a tab")
        if not re.fullmatch(r"(- )?[\w-]+:( .+)?|- .+", content):
            faults.append(f"line {number}: neither a key nor an item")
        while indent < indents[-1]:
            indents.pop()
        if indent > indents[-1]:
            if not opens:
                faults.append(f"line {number}: indented below a value")
            indents.append(indent)
        elif indent < indents[-1] or indent not in indents:
            faults.append(f"line {number}: indented as nothing above it")
        for left, right in ("[]", "{}", '""'):
            if content.count(left) % 2 if left == right else content.count(left) != content.count(right):
                faults.append(f"line {number}: {left} without {right}")
        opens = content.endswith(":") or content.startswith("- ")
        if content.endswith(("|", ">")):
            block = indent
    return faults


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_a_template_is_yaml(name: str) -> None:
    assert faults_of_yaml((FOLDER / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    ["a:\n\tb: 1\n", "a: [1\n", "a: 1\n  b: 2\n", "words without a colon\n", 'a: "b\n', "a:\n    b: 1\n  c: 2\n"],
)
def test_what_is_not_yaml_is_found(text: str) -> None:
    assert faults_of_yaml(text)


def test_the_pipeline_closes_what_it_opens() -> None:
    text = re.sub(r"'[^']*'|\"[^\"]*\"|//[^\n]*", "", (FOLDER / "Jenkinsfile").read_text(encoding="utf-8"))
    assert text.count("{") == text.count("}")
    assert text.split()[0] == "pipeline"


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_a_matrix_of_both_vendors_and_keeps_the_results(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    for word in ("cuda", "hip", "matrix", "PORTAMEM_REQUIRE", "report.json", "results.xml", "portamem info"):
        assert word in text, word


def test_the_options_are_those_of_the_command() -> None:
    done = run_python("from portamem.cli import main; main(['conformance', '--help'])")
    assert done.returncode == 0, done.stderr
    known = set(re.findall(r"--[\w-]+", done.stdout))
    for name in TEMPLATES:
        lines = re.findall(r"portamem conformance ([^\n]+)", (FOLDER / name).read_text(encoding="utf-8"))
        used = {option for line in lines for option in re.findall(r"--[\w-]+", line)}
        assert {"--report", "--junit", "--backend"} <= used, name
        assert used <= known, name
