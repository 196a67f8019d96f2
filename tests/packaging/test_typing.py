"""The package is typed: a marker, and a stub for every native module that is installed."""

from __future__ import annotations

import ast
import importlib

import installed
import pytest


def test_marker():
    assert (installed.FOLDER / "py.typed").is_file()


@pytest.mark.parametrize("backend", ["host", "cuda", "hip"])
def test_every_module_has_a_stub(backend):
    assert (installed.FOLDER / f"_{backend}.pyi").is_file()


@pytest.mark.parametrize("backend", ["host", "cuda", "hip"])
def test_the_stub_names_all_that_a_module_has(backend):
    """The three modules have one interface, which is written down once."""
    installed.module(backend)
    tree = ast.parse((installed.FOLDER / "_host.pyi").read_text(encoding="utf-8"))
    named = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    variables = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    named |= {target.id for target in variables if isinstance(target, ast.Name)}
    module = importlib.import_module(f"portamem._{backend}")
    assert {name for name in vars(module) if not name.startswith("__")} - named == set()
