# SPDX-License-Identifier: MIT
"""The public names of portamem as objects for Sphinx's autodoc, made from the type stubs.

The stubs hold every signature and the longest docstrings, and a stage of its own (ci/stubs.sh) compares them with the
compiled modules. So the reference is built from a checkout in which nothing was compiled.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "portamem"

# Names that only the stubs have, and the names under which docs/api/index.md explains them.
ALIASES = {
    "_Size": "Size",
    "_Shape": "Shape",
    "_StreamLike": "StreamLike",
    "_DeviceLike": "DeviceLike",
    "_LocationLike": "LocationLike",
    "_Memory": "Memory",
    "_HostMemory": "HostMemory",
    "_Resource": "MemoryResource",
}

# Classes of results: calls return them, and no program makes one.
RESULTS = {
    "portamem._pool": ("PoolStats",),
    "portamem._record": ("MemoryCounts", "OutstandingAllocation", "StatisticsScope"),
    "portamem._check": ("OrderCheck", "OrderFinding", "OrderUse"),
}


class _Public(ast.NodeTransformer):
    """Takes the explained names for the stubs' own, and leaves out what is private."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(ALIASES.get(node.id, node.id), node.ctx), node)

    def visit_Module(self, node: ast.Module) -> ast.Module:
        kept = (ast.ClassDef, ast.FunctionDef)
        node.body = [part for part in node.body if isinstance(part, kept) and not part.name.startswith("_")]
        self.generic_visit(node)
        return node


def _run(stub: Path, extra: dict[str, Any]) -> dict[str, Any]:
    """What the classes and functions of a stub file define."""
    tree = ast.fix_missing_locations(_Public().visit(ast.parse(stub.read_text(encoding="utf-8"))))
    code = compile(tree, str(stub), "exec", flags=__future__.annotations.compiler_flag)
    namespace: dict[str, Any] = {"__name__": "portamem", **vars(typing), **extra}
    before = set(namespace)
    exec(code, namespace)
    return {name: value for name, value in namespace.items() if name not in before}


def install() -> ModuleType:
    """Imports the package of the checkout, and puts the stubs' objects where the chosen backend's would be."""
    sys.path.insert(0, str(ROOT))
    package = importlib.import_module("portamem")
    sys.modules["portamem._knobs"] = ModuleType("portamem._knobs")  # compiled, like the backends
    objects = _run(PACKAGE / "_host.pyi", {})
    contextlib = importlib.import_module("contextlib")
    facade = _run(PACKAGE / "host.pyi", {"contextmanager": contextlib.contextmanager})
    documented = (importlib.import_module("portamem._api").Scopes, importlib.import_module("portamem._arrays").Arrays)
    for name, function in facade.items():
        source = next(getattr(cls, name) for cls in documented if hasattr(cls, name))
        function.__doc__ = inspect.getdoc(source)
        if wrapped := getattr(function, "__wrapped__", None):
            wrapped.__doc__ = function.__doc__
    for module, names in RESULTS.items():
        objects.update({name: getattr(importlib.import_module(module), name) for name in names})
    for module, names in (("portamem._loader", ("BackendInfo",)), ("portamem.reasons", ("Reason",))):
        objects.update({name: getattr(importlib.import_module(module), name) for name in names})
    for name in ("BackendUnavailableError", "Error", "OrderError", "OutOfMemoryError"):
        objects[name] = getattr(package, name)
    objects.update(facade)
    for name, value in objects.items():
        value.__module__ = "portamem"
        setattr(package, name, value)
    return package
