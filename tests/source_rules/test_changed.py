"""ci/changed.py finds the tests of a change by names, and always some."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers.script import load_script

FILE = Path(__file__).parents[2] / "ci" / "changed.py"


@pytest.fixture(scope="module")
def changed() -> ModuleType:
    return load_script(FILE)


TESTS = {
    "tests/cpp/pm_copy.cpp": '#include "portamem/copy.hpp"',
    "tests/cpp/pm_fork.cpp": '#include "forked_child.hpp"',
    "tests/test_dlpack_import.py": "from portamem.interop import tensors",
    "tests/test_sizes.py": "import portamem._sizes",
}


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/cpp/pm_fork.cpp", ["tests/cpp/pm_fork.cpp"]),
        ("csrc/include/portamem/copy.hpp", ["tests/cpp/pm_copy.cpp"]),
        ("tests/cpp/forked_child.hpp", ["tests/cpp/pm_fork.cpp"]),
        ("csrc/python/dlpack_import.cpp", ["tests/test_dlpack_import.py"]),
        ("portamem/_sizes.py", ["tests/test_sizes.py"]),
        ("README.md", []),
    ],
)
def test_a_change_has_the_tests_that_name_it(changed: ModuleType, path: str, tests: list[str]) -> None:
    assert changed.tests_of([path], TESTS) == tests


def test_what_changed_comes_first(changed: ModuleType) -> None:
    found = changed.tests_of(["csrc/include/portamem/copy.hpp", "tests/test_sizes.py"], TESTS)
    assert found == ["tests/test_sizes.py", "tests/cpp/pm_copy.cpp"]


def test_groups_are_those_of_the_contract(changed: ModuleType) -> None:
    found = changed.groups_of(["csrc/core/pool/slabs.cpp", "portamem/conformance/checks/order_random.py"])
    assert found == ["ORDER", "POOL"]


def test_without_a_change_there_is_still_a_slice(changed: ModuleType) -> None:
    if not (FILE.parents[1] / ".git").exists():
        pytest.skip("no history: the sources are not a clone")
    done = subprocess.run([sys.executable, str(FILE), "HEAD"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert set(changed.ALWAYS_PYTHON) <= set(found["python"])
    for name in (*found["python"], *(f"tests/cpp/{pattern[1:]}" for pattern in found["cpp"])):
        assert (FILE.parents[1] / name).exists(), name
    assert set(changed.ALWAYS_GROUPS) <= set(found["groups"])
