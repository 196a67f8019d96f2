# SPDX-License-Identifier: MIT
"""Writes portamem/_words.py: the signatures and docstrings of portamem/_host.pyi, as data for programs.

python tools/words.py --write after a change to the stub; tests/test_help.py compares the two.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent.parent / "portamem"
STUB = PACKAGE / "_host.pyi"
TARGET = PACKAGE / "_words.py"

HEAD = '''# SPDX-License-Identifier: MIT
# ruff: noqa: E501
"""What each public name is, in words: written by tools/words.py from _host.pyi, to be changed there.

By name: its kind, its signature as help() shows it, the same as plain text for inspect, and its docstring. Loaded with
a native module, and otherwise only when a program asks.
"""

WORDS: dict[str, tuple[str, str, str, str]] = {
'''

# Types that the stub has as a protocol or an alias of its own, each as a user would write it.
IN_WORDS = {
    "SupportsIndex": "int",
    "SupportsInt": "int",
    "SupportsFloat": "float",
    "CapsuleType": "Any",
    "_BytesFile": "str | os.PathLike[str] | IO[bytes]",
    "_HostMemory": "Any",
    "_Memory": "Buffer | View | HostRegistration | Any",
}


class Word(NamedTuple):
    kind: str
    signature: str
    plain: str
    doc: str


class Written(ast.NodeTransformer):
    """An annotation without the stub's own names."""

    def __init__(self, aliases: dict[str, ast.expr], owner: str) -> None:
        self._aliases = aliases
        self._owner = owner

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in IN_WORDS:
            return ast.parse(IN_WORDS[node.id], mode="eval").body
        if node.id == "Self":
            return ast.Name(self._owner)
        if node.id in self._aliases:
            found: ast.expr = self.visit(ast.parse(ast.unparse(self._aliases[node.id]), mode="eval").body)
            return found
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        parts = [part for side in (node.left, node.right) for part in _members(self.visit(side))]
        # The words are shown, and the enum of the same words is not.
        texts = dict.fromkeys(ast.unparse(part) for part in parts if not ast.unparse(part).startswith("_enums."))
        return ast.parse(" | ".join(texts), mode="eval").body


def _members(node: ast.expr) -> list[ast.expr]:
    return [*_members(node.left), *_members(node.right)] if isinstance(node, ast.BinOp) else [node]


def words() -> dict[str, Word]:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    aliases = {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    }
    found: dict[str, Word] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = _word(node, "", aliases)
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        members = {}
        for member in node.body:
            if not isinstance(member, ast.FunctionDef) or _is_private(member.name):
                continue
            key = f"{node.name}.{member.name}"
            if any(ast.unparse(mark).endswith(".setter") for mark in member.decorator_list):
                members[key] = members[key]._replace(kind="settable")
            else:
                members[key] = _word(member, node.name, aliases)
        made = members.get(f"{node.name}.__init__") or members.pop(f"{node.name}.__new__", None)
        signature, plain = ("", "")
        if made is not None:
            signature, plain = (_without_first(text) for text in (made.signature.partition(" -> ")[0], made.plain))
        found[node.name] = Word("class", signature, plain, ast.get_docstring(node) or "")
        found.update(members)
    return found


def _is_private(name: str) -> bool:
    """True also for the buffer protocol's method, which Python itself adds from 3.12 on."""
    return name == "__buffer__" or (name.startswith("_") and not name.startswith("__"))


def _word(node: ast.FunctionDef, owner: str, aliases: dict[str, ast.expr]) -> Word:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    kind = "property" if "property" in marks else "static" if "staticmethod" in marks else "method"
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    for each in arguments:
        if each is not None and each.annotation is not None:
            each.annotation = Written(aliases, owner).visit(each.annotation)
    answer = "" if node.returns is None else f" -> {ast.unparse(Written(aliases, owner).visit(node.returns))}"
    signature = f"({ast.unparse(node.args)}){answer}"
    for each in arguments:
        if each is not None:
            each.annotation = None
    return Word(kind if owner else "function", signature, f"({ast.unparse(node.args)})", ast.get_docstring(node) or "")


def _without_first(signature: str) -> str:
    """A signature without self or cls."""
    arguments = ast.parse(f"def made{signature}: ...").body[0].args  # type: ignore[attr-defined]
    del arguments.args[0]
    return f"({ast.unparse(arguments)})"


def text(all_words: dict[str, Word]) -> str:
    entries = []
    for name, word in all_words.items():
        doc = word.doc.replace("\\", "\\\\").replace('"""', '\\"""')
        doc = doc[:-1] + '\\"' if doc.endswith('"') else doc
        entries.append(f'    "{name}": (\n        "{word.kind}",\n        {_quoted(word.signature)},\n')
        entries.append(f'        {_quoted(word.plain)},\n        """{doc}""",\n    ),\n')
    return HEAD + "".join(entries) + "}\n"


def _quoted(line: str) -> str:
    return "'" + line + "'" if '"' in line else '"' + line + '"'


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    TARGET.write_text(text(words()), encoding="utf-8")
