# SPDX-License-Identifier: MIT
"""Reads rt's functions under one header set, by clang: which vendor calls each way through a body makes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from clang.cindex import Cursor, CursorKind, Diagnostic, Index, TranslationUnit, TranslationUnitLoadError

#: A call of the vendor's, or a value of its that a macro or an enumerator names.
VENDOR = re.compile(r"(?:cuda|cu|hip|pmh)[A-Z]\w*\Z")
_WORD = re.compile(rb"\w+")
#: A condition that only asks how a call went. Anything longer says more, and is not taken for a failure.
_SUCCESS = re.compile(r"(?!.*(?:&&|\|\|)).*(?P<operator>[=!]=) (?:\w+::)*(?:\w+_SUCCESS|(?:cuda|hip|pmh)?Success)\Z")
_FUNCTIONS = (CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR)
_LOOPS = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT, CursorKind.CXX_FOR_RANGE_STMT)
#: Every vendor's answer goes through a function of this name, which makes calls after a failure only.
GATE = "answer"
UMBRELLA = "#include <portamem/portamem.hpp>\n"


class Unreadable(SystemExit):
    """A construct that the reader does not follow stands where it would matter."""

    def __init__(self, what: str) -> None:
        super().__init__(f"header-matrix: tools/header_matrix/reader.py cannot follow {what}")


@dataclass(frozen=True)
class Way:
    """One way through a body: the calls in order, and the literal Error_t that it returns, if it returns one."""

    calls: tuple[str, ...] = ()
    answer: str | None = None
    ended: bool = False
    failed: bool = False  #: a call on it has failed: a plain comparison with success says so


@dataclass
class Function:
    """An rt function under one header set."""

    name: str
    header: str  #: of the contract: "memory"
    text: str  #: the contract's comment
    paths: set[Way] = field(default_factory=set)
    once: set[str] = field(default_factory=set)  #: calls made by the first call only
    values: set[str] = field(default_factory=set)  #: the vendor's values that the body itself names
    types: dict[str, str] = field(default_factory=dict)  #: the types of the vendor's functions that it calls
    type: str = ""
    renamed: dict[str, str] = field(default_factory=dict)  #: what a macro of the vendor's makes of a call's name
    refused: set[str] = field(default_factory=set)  #: conditions under which the answer is NotSupported

    @property
    def sequences(self) -> list[tuple[str, ...]]:
        """The calls of every way that may succeed and makes one, longest first."""
        found = {p.calls for p in self.paths if p.calls and p.answer in (None, "Success") and not p.failed}
        return sorted(found, key=lambda calls: (-len(calls), calls))


@dataclass
class Reading:
    """All of rt under one header set."""

    functions: dict[str, Function]
    capabilities: set[str]  #: fields of Capabilities, and DeviceAttr's values
    unit: TranslationUnit


@cache
def resource_folder() -> str:
    found = subprocess.run(["clang++", "-print-resource-dir"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@cache
def _bytes(file: str) -> bytes:
    return Path(file).read_bytes()


def parse(flags: Iterable[str], text: str) -> TranslationUnit:
    """A translation unit as clang sees it, errors and all."""
    arguments = ["-x", "c++", *flags, "-resource-dir", resource_folder()]
    try:
        unit = Index.create().parse("unit.cpp", args=arguments, unsaved_files=[("unit.cpp", text)])
    except TranslationUnitLoadError as error:
        raise SystemExit(f"header-matrix: clang cannot read with {' '.join(arguments)}: {error}") from None
    return unit


def errors(unit: TranslationUnit) -> list[str]:
    return [str(d) for d in unit.diagnostics if d.severity >= Diagnostic.Error]


def why_not(flags: Iterable[str], needed: Iterable[tuple[Path, str]]) -> str:
    """Why portamem.hpp does not compile: clang's first error, without folders. Empty where it does.

    needed: folders, and a header that each has to hold itself, because one from elsewhere would be of another version.
    """
    for folder, header in needed:
        if not (folder / header).exists():
            return f"{header}: in no package"
    said = errors(parse(flags, UMBRELLA))
    return re.sub(r"^\S*?([^/ ]+?):\d+:\d+: ", r"\1: ", said[0]) if said else ""


def namespaces(cursor: Cursor, *names: str) -> Iterator[Cursor]:
    """The declarations in a namespace, inline namespaces below it included."""
    for child in cursor.get_children():
        if child.kind != CursorKind.NAMESPACE:
            if not names:
                yield child
        elif names and child.spelling == names[0]:
            yield from namespaces(child, *names[1:])
        elif cursor.kind == CursorKind.NAMESPACE and child.spelling.startswith("backend_"):
            yield from namespaces(child, *names)


def spelled(cursor: Cursor) -> str:
    """The word in the source at which an expression begins: before macros, unlike what it refers to."""
    location = cursor.location
    if location.file is None:
        return ""
    found = _WORD.match(_bytes(location.file.name), location.offset)
    return found[0].decode() if found else ""


def _source(cursor: Cursor) -> str:
    begin, end = cursor.extent.start, cursor.extent.end
    return " ".join(_bytes(begin.file.name)[begin.offset : end.offset].decode().split())


def read(flags: Iterable[str], text: str = UMBRELLA, ours: str = "/rt/") -> Reading:
    """Reads the functions that the headers in rt/api declare. What lies below a folder named as `ours` is followed."""
    unit = parse(flags, text)
    if said := errors(unit):
        raise SystemExit("header-matrix: " + "\n".join(said))
    declared = [c for c in namespaces(unit.cursor, "portamem", "rt") if c.kind == CursorKind.FUNCTION_DECL]
    contracts = [c for c in declared if "/rt/api/" in str(c.location.file)]
    names = {c.get_usr() for c in contracts}
    functions = {}
    walker = _Walker(names, ours)
    for contract in contracts:
        function = Function(contract.spelling, Path(str(contract.location.file)).stem, contract.raw_comment or "")
        walker.function(contract, function)
        functions[contract.spelling] = function
    capabilities = {
        f"{c.spelling}::{member.spelling}"
        for c in (*namespaces(unit.cursor, "portamem"), *namespaces(unit.cursor, "portamem", "rt"))
        if c.spelling in ("Capabilities", "DeviceAttr")
        for member in c.get_children()
        if member.kind in (CursorKind.FIELD_DECL, CursorKind.ENUM_CONSTANT_DECL)
    }
    return Reading(functions, capabilities, unit)


class _Walker:
    def __init__(self, contracts: set[str], ours: str) -> None:
        self._contracts = contracts
        self._ours = ours
        self._known: dict[str, Function] = {}
        self._looked_up: dict[str, str] = {}

    def function(self, cursor: Cursor, into: Function) -> None:
        definition = cursor.get_definition()
        if definition is None:
            raise SystemExit(f"header-matrix: {cursor.spelling} is declared and not defined")
        self._known[cursor.get_usr()] = into
        into.type = cursor.type.get_canonical().spelling
        body = [c for c in definition.get_children() if c.kind == CursorKind.COMPOUND_STMT]
        if not body:
            raise Unreadable(f"{cursor.spelling} has no body")
        into.paths = self._statement(body[0], into, None)

    # Statements: from the ways that lead here to the ways that lead on.

    def _block(self, statements: Iterable[Cursor], into: Function, condition: str | None) -> set[Way]:
        ways = {Way()}
        for statement in statements:
            ways = _then(ways, self._statement(statement, into, condition))
        return ways

    def _statement(self, cursor: Cursor, into: Function, condition: str | None) -> set[Way]:
        kind = cursor.kind
        children = list(cursor.get_children())
        if kind == CursorKind.COMPOUND_STMT:
            return self._block(children, into, condition)
        if kind == CursorKind.IF_STMT:
            return self._if(children, into)
        if kind == CursorKind.RETURN_STMT:
            return self._return(children, into, condition)
        if kind == CursorKind.SWITCH_STMT:
            return self._switch(children, into)
        if kind in (*_LOOPS, CursorKind.CXX_TRY_STMT):
            return self._plain(cursor, into)
        if kind == CursorKind.DECL_STMT:
            for variable in children:
                if variable.kind == CursorKind.VAR_DECL and variable.storage_class.name == "STATIC":
                    # Constructed by the first caller.
                    into.once |= {call for path in self._expressions(variable, into) for call in path.calls}
                    return {Way()}
        return self._expressions(cursor, into)

    def _if(self, children: list[Cursor], into: Function) -> set[Way]:
        ways = {Way()}
        if children[0].kind == CursorKind.DECL_STMT:
            ways = self._statement(children.pop(0), into, None)
        condition, then, *otherwise = children
        ways = _then(ways, self._expressions(condition, into))
        text = _source(condition)
        taken = self._statement(then, into, text)
        passed = self._statement(otherwise[0], into, f"not ({text})") if otherwise else {Way()}
        return _then(ways, _branches(text, taken, passed))

    def _return(self, children: list[Cursor], into: Function, condition: str | None) -> set[Way]:
        if not children:
            return {Way(ended=True)}
        return self._returned(children[0], into, condition)

    def _returned(self, literal: Cursor, into: Function, condition: str | None) -> set[Way]:
        if literal.kind == CursorKind.CONDITIONAL_OPERATOR:
            asked, first, second = literal.get_children()
            text = _source(asked)
            branches = (self._returned(first, into, condition or text), self._returned(second, into, condition or text))
            return _then({Way(w.calls) for w in self._expressions(asked, into)}, _branches(text, *branches))
        if literal.kind == CursorKind.DECL_REF_EXPR and literal.referenced.kind == CursorKind.ENUM_CONSTANT_DECL:
            if literal.spelling == "NotSupported":
                into.refused.add(condition or "always")
            return {Way(answer=literal.spelling, ended=True)}
        ways = self._expressions(literal, into, condition)
        # A helper's answer is this function's answer, where nothing stands between.
        if literal.kind == CursorKind.CALL_EXPR and self._is_helper(literal.referenced):
            return {Way(w.calls, w.answer, True, w.failed) for w in ways}
        return {Way(w.calls, ended=True) for w in ways}

    def _switch(self, children: list[Cursor], into: Function) -> set[Way]:
        """Each case is a way of its own, and so is none of them. Cases do not run on into each other here."""
        subject, body = children[-2:]
        ways = {Way()}
        labels: list[str] = []
        for statement in body.get_children():
            inner = statement
            labels = []
            while inner.kind in (CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT):
                *label, inner = inner.get_children()
                labels += [f"{_source(subject)} == {_source(word)}" for word in label]
            if inner.kind != CursorKind.BREAK_STMT:
                ways |= self._statement(inner, into, " or ".join(labels) or None)
        return _then(self._expressions(subject, into), ways)

    def _plain(self, cursor: Cursor, into: Function) -> set[Way]:
        """A loop: followed only as far as to know that it makes no call, because how often it would is unknown."""
        for inside in cursor.walk_preorder():
            if inside.kind == CursorKind.CALL_EXPR and any(path.calls for path in self._calls(inside, into)):
                raise Unreadable(f"{into.name}: a call within {cursor.kind.name} at {inside.location}")
        return {Way()}

    # Expressions, in the order of evaluation as far as calls are concerned: arguments before the call.

    def _expressions(self, cursor: Cursor, into: Function, condition: str | None = None) -> set[Way]:
        if cursor.kind == CursorKind.LAMBDA_EXPR:
            return {Way()}
        word = spelled(cursor)
        if VENDOR.match(word) and cursor.kind != CursorKind.TYPE_REF:
            into.values.add(word)
        children = list(cursor.get_children())
        if cursor.kind == CursorKind.CONDITIONAL_OPERATOR:
            asked, first, second = (self._expressions(child, into) for child in children)
            return _then(asked, first | second)
        ways = {Way()}
        for child in children:
            if child.kind != CursorKind.TYPE_REF:
                ways = _then(ways, {Way(w.calls) for w in self._expressions(child, into)})
        if cursor.kind == CursorKind.CALL_EXPR:
            ways = {
                Way(way.calls + after.calls, after.answer, failed=after.failed)
                for way in ways
                for after in self._calls(cursor, into, condition)
            }
        return ways

    def _is_helper(self, called: Cursor | None) -> bool:
        """True where a function is rt's own and no part of its API."""
        return (
            called is not None
            and called.kind in _FUNCTIONS
            and called.get_usr() not in self._contracts
            and called.location.file is not None
            and self._ours in called.location.file.name
        )

    def _calls(self, cursor: Cursor, into: Function, condition: str | None = None) -> set[Way]:
        called = cursor.referenced
        if called is None:
            return {Way()}
        if called.get_usr() in self._contracts:
            return {Way((f"rt::{called.spelling}",))}
        if called.kind == CursorKind.FIELD_DECL:
            return {Way((self._entry_point(called),))}
        if called.spelling == GATE:
            return {Way()}
        if not self._is_helper(called):
            word = spelled(cursor)
            if called.kind == CursorKind.FUNCTION_DECL and VENDOR.match(called.spelling):
                # Within a macro of the vendor's the word is the macro's.
                if word != called.spelling:
                    into.renamed[word] = called.spelling
                into.types[word] = called.type.get_canonical().spelling
                return {Way((word,))}
            return {Way()}
        return self._helper(called, into, condition)

    def _helper(self, called: Cursor, into: Function, condition: str | None) -> set[Way]:
        usr = called.get_usr()
        if usr not in self._known:
            helper = Function(called.spelling, "", "")
            definition = called.get_definition()
            bodies = [] if definition is None else [c for c in definition.get_children() if c.kind.is_statement()]
            self._known[usr] = helper
            if bodies:
                helper.paths = self._statement(bodies[0], helper, None)
            else:
                helper.paths = {Way()}
        helper = self._known[usr]
        into.once |= helper.once
        into.renamed.update(helper.renamed)
        into.refused |= {condition} if condition and helper.refused else helper.refused
        # A caller that succeeds is taken to have helpers that do.
        paths = {p for p in helper.paths if not p.failed} or helper.paths
        return {Way(p.calls, p.answer, failed=p.failed) for p in paths} or {Way()}

    def _entry_point(self, member: Cursor) -> str:
        """The driver's call behind a pointer: the name by which the constructor of its struct looks it up."""
        if member.get_usr() not in self._looked_up:
            for method in member.semantic_parent.get_children():
                if method.kind != CursorKind.CONSTRUCTOR:
                    continue
                for call in method.walk_preorder():
                    if call.kind == CursorKind.CALL_EXPR and call.spelling == "find":
                        pointer, name = list(call.get_arguments())[:2]
                        literal = next(c for c in name.walk_preorder() if c.kind == CursorKind.STRING_LITERAL)
                        self._looked_up[pointer.referenced.get_usr()] = literal.spelling.strip('"')
        found: str = self._looked_up.get(member.get_usr(), member.spelling)
        return found


def _branches(condition: str, taken: set[Way], passed: set[Way]) -> set[Way]:
    """The two ways on from a condition, the one marked on which a call is known to have failed."""
    asked = _SUCCESS.match(condition)
    if asked and asked["operator"] == "==":
        passed = {_failed(way) for way in passed}
    elif asked:
        taken = {_failed(way) for way in taken}
    return taken | passed


def _failed(way: Way) -> Way:
    return way if way.answer == "Success" else Way(way.calls, way.answer, way.ended, True)


def _then(ways: set[Way], following: set[Way]) -> set[Way]:
    """Each way that has not ended, carried on by each of those that follow."""
    return {way for way in ways if way.ended} | {
        Way(
            way.calls + after.calls,
            after.answer,
            after.ended,
            (way.failed or after.failed) and after.answer != "Success",
        )
        for way in ways
        if not way.ended
        for after in following
    }
