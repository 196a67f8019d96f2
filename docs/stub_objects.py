# SPDX-License-Identifier: MIT
"""The public names of portamem as objects for Sphinx's autodoc, made from the type stubs.

The stubs hold every signature and the longest docstrings, and a stage of its own (ci/stubs.sh) compares them with the
compiled modules. So the reference is built from a checkout in which nothing was compiled.
"""

from __future__ import annotations
import __future__

import ast
import importlib
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
    "_BytesFile": "BytesFile",
    "_Resource": "MemoryResource",
}

# Classes of results: calls return them, and no program makes one.
RESULTS = {
    "portamem._pool": ("PoolStats", "PoolSnapshot"),
    "portamem._record": ("MemoryCounts", "OutstandingAllocation", "StatisticsScope"),
    "portamem._check": ("OrderCheck", "OrderFinding", "OrderUse"),
}


class _Public(ast.NodeTransformer):
    """Replaces names that only the stubs have, by explained ones or by the words themselves. Drops private parts."""

    def __init__(self) -> None:
        self._words: dict[str, ast.expr] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._words:
            return self._words[node.id]
        if node.id == "_enums":
            return ast.parse("portamem.enums", mode="eval").body
        return ast.Name(ALIASES.get(node.id, node.id), node.ctx)

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Subscript):
                is_words = isinstance(part.value.value, ast.Name) and part.value.value.id == "Literal"
                if is_words and isinstance(part.target, ast.Name):
                    self._words[part.target.id] = part.value
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


def source_order() -> dict[str, int]:
    """The classes, functions and members of the stubs by the line that defines them, as autodoc asks for them."""
    order: dict[str, int] = {}
    for stub in (PACKAGE / "_host.pyi", PACKAGE / "host.pyi"):
        for part in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(part, (ast.ClassDef, ast.FunctionDef)):
                order.setdefault(part.name, len(order))
            for member in part.body if isinstance(part, ast.ClassDef) else ():
                if isinstance(member, ast.FunctionDef):
                    order.setdefault(f"{part.name}.{member.name}", len(order))
    return order


def install() -> ModuleType:
    """Imports the package of the checkout, and puts the stubs' objects where the chosen backend's would be."""
    sys.path.insert(0, str(ROOT))
    package = importlib.import_module("portamem")
    sys.modules["portamem._knobs"] = ModuleType("portamem._knobs")  # compiled, like the backends
    objects = _run(PACKAGE / "_host.pyi", {})
    contextlib = importlib.import_module("contextlib")
    facade = _run(PACKAGE / "host.pyi", {"contextmanager": contextlib.contextmanager})
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
