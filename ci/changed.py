# SPDX-License-Identifier: MIT
"""Says which tests concern what differs from a commit, as JSON: for ci/quick.

    python ci/changed.py BASE

``cpp`` are doctest's patterns of test files, ``python`` test files, ``groups`` groups of the contract. Found by names
and by what a test file includes or imports: a guess that is right for most changes. .ci/run guesses nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Tests that every change runs: the thin slice through everything.
ALWAYS_CPP = ("pm_buffer.cpp", "pm_copy.cpp")
ALWAYS_PYTHON = ("tests/test_buffer.py", "tests/test_pool.py", "tests/source_rules/test_source_rules.py")
ALWAYS_GROUPS = ("ALLOC", "COPY")

#: A file that more test files than this include is common to all: the slice says most of what they would.
MOST = 12


def changed_files(base: str) -> list[str]:
    """The files that differ from the commit, committed or not, with new ones; without those that are gone."""
    listed = (
        ("git", "diff", "--name-only", "--diff-filter=d", base),
        ("git", "ls-files", "--others", "--exclude-standard"),
    )
    found = [subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout for command in listed]
    return sorted({line for text in found for line in text.splitlines()})


def words(stem: str) -> set[str]:
    """The words of a file's name that tell what it is about: ``dlpack_import`` is about dlpack and import."""
    dull = {"test", "tests", "pm", "core", "host", "api", "init", "resource", "memory", "py", "bindings", "object"}
    return {word.rstrip("s") for word in re.split(r"[_\W]+", stem.lower()) if len(word) > 2} - dull


def tests_of(changed: list[str], tests: dict[str, str]) -> list[str]:
    """Chooses of the test files (path to text) first those that changed, then those that name or include a changed
    file, then those that share its subject."""
    chosen = [path for path in changed if path in tests]
    for path in changed:
        file = Path(path)
        if path in tests or file.suffix not in {".py", ".cpp", ".hpp", ".h"}:
            continue
        module = ".".join(file.with_suffix("").parts)
        named = re.compile(rf'["/]{re.escape(file.name)}"|\b{re.escape(module)}\b')
        including = [test for test, text in tests.items() if named.search(text)]
        if len(including) <= MOST:
            chosen += including
        subject = words(file.stem)
        chosen += [test for test in tests if subject & words(Path(test).stem)]
    return list(dict.fromkeys(chosen))


def groups_of(changed: list[str]) -> list[str]:
    """Groups of the contract whose name is a word of what changed, or of the folder that it lies in."""
    known = {path.stem for path in (ROOT / "portamem" / "conformance" / "contract").glob("[a-z]*.py")} - {"clause"}
    said = {word for path in changed for part in Path(path).with_suffix("").parts for word in words(part)}
    return sorted(group.upper() for group in known & said)


def texts(pattern: str) -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.glob(pattern)}


def main() -> int:
    changed = changed_files(sys.argv[1])
    cpp = [Path(path).name for path in tests_of(changed, texts("tests/cpp/*.cpp"))]
    python = tests_of(changed, texts("tests/**/test_*.py"))
    found = {
        "changed": changed,
        "cpp": [f"*{name}" for name in sorted({*cpp[:MOST], *ALWAYS_CPP})],
        "python": sorted({*python[:MOST], *ALWAYS_PYTHON}),
        "groups": sorted({*groups_of(changed), *ALWAYS_GROUPS}),
    }
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
