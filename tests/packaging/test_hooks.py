"""The recipes of docs/porting/hooks.md, by which libraries take their memory from portamem through their own hooks.

The page's blocks are compiled as they stand, against stand-ins for the libraries' headers, and run on the CPU backend.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from installed import library
from programs import CHECKOUT, HERE, output, run, tool
from test_adaptors import cccl, runs_in_every_model

import portamem

pytestmark = pytest.mark.builds

PAGE = CHECKOUT / "docs" / "porting" / "hooks.md"
PROGRAM = HERE / "hooks" / "hooks.cpp"
RECIPES = ("any", "hypre", "amrex", "umpire", "kokkos", "petsc")


def recipes() -> dict[str, str]:
    """The blocks of each section, by the first word of its heading."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    blocks = {text.split()[0].lower(): re.findall(r"^```c\+\+\n(.*?)^```", text, re.DOTALL | re.M) for text in sections}
    return {name: "\n".join(found) for name, found in blocks.items() if found}


def compiled(folder: Path, compiler: str, *flags: str) -> None:
    for name, text in recipes().items():
        (folder / f"{name}.hpp").write_text(f"#pragma once\n{text}", encoding="utf-8")
    include = (folder, PROGRAM.parent / "standins", HERE / "adaptors", portamem.get_include())
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
    output(tool(compiler), "-std=c++17", *warnings, *(f"-I{path}" for path in include), PROGRAM, *flags)


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, home = tmp_path_factory.mktemp("hooks"), library().parent
    link = (f"-L{home}", "-lportamem", f"-Wl,-rpath,{home}", "-pthread", "-o", str(folder / "hooks"))
    compiled(folder, "g++", "-DPORTAMEM_HOST", *link)
    return folder / "hooks"


def test_each_recipe_of_the_page_is_compiled() -> None:
    assert tuple(recipes()) == RECIPES
    included = re.findall(r'^#include "(\w+)\.hpp"', PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(RECIPES) == set(included) - {"check"}


def test_the_recipes_run(binary: Path) -> None:
    runs_in_every_model(binary)


def test_a_wrong_free_ends_the_program_and_says_why(binary: Path) -> None:
    ended = run(binary, "wrong")
    assert ended.returncode < 0
    assert "the memory resource knows no allocation at this address" in ended.stderr


def test_the_recipes_compile_for_cuda(tmp_path: Path) -> None:
    compiled(tmp_path, "clang++", "-fsyntax-only", "-DPORTAMEM_CUDA", *cccl())
