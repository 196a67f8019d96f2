# SPDX-License-Identifier: MIT
"""Counts the instructions that rt adds to a native call: it needs neither a GPU nor a library.

For each native function two functions are compiled, with everything inlined: one calls rt's and one the vendor's, and
both go on after a success and call for help after a failure. What is compared is the longest way through each that
makes the vendor's call, no other of the vendor's, and returns: a success.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from header_matrix.reader import VENDOR

#: More than this is a failure.
BOUND = 12
_FIELDS = "moves the fields of a structure"
#: Functions that do more than check and pass on, with bounds of their own.
LARGER = {
    "GetDeviceProperties": (50, _FIELDS),
    "HostMalloc": (16, "adds the flag that makes memory coherent"),
    "MemAddressReserve": (24, "passes the address through a number"),
    "MemAdvise": (30, "makes a location, which not every advice has"),
    "MemCreate": (24, _FIELDS),
    "MemGetAccess": (28, _FIELDS),
    "MemGetAllocationGranularity": (24, _FIELDS),
    "MemPoolCreate": (24, _FIELDS),
    "MemPoolGetAccess": (28, _FIELDS),
    "MemPoolGetAttribute": (24, "the vendor's values have two widths"),
    "MemPoolSetAccess": (20, _FIELDS),
    "MemSetAccess": (24, _FIELDS),
    "MemPrefetchAsync": (16, "makes a location"),
    "PointerGetAttribute": (20, "checks the attribute and narrows its value"),
    "Memcpy3D": (70, _FIELDS),
    "Memcpy3DAsync": (70, _FIELDS),
}

_FUNCTION_TYPE = re.compile(r"(?P<result>.+?) ?\((?P<arguments>.*)\)(?: noexcept)?\Z")
_SYMBOL = re.compile(r"^[0-9a-f]+ <(\w+)>:$")
_PREFIXES = "(?:(?:bnd|notrack|rep[nez]*|lock|cs|ds|data16) )*"
_INSTRUCTION = re.compile(rf"^ +([0-9a-f]+):\t{_PREFIXES}(\w+)(?: +([^<#\n]*?))?(?: *<.*)?(?: *#.*)?$")
# Code that the compiler thinks is seldom needed is in a section of its own, whose name stands for its address.
_RELOCATION = re.compile(r"^\t+[0-9a-f]+: R_X86_64_\w+\t([\w.]+)")


@dataclass(frozen=True)
class Subject:
    """A native function, and the vendor's of the same name."""

    name: str
    type: str
    vendor: str
    vendor_type: str


@dataclass(frozen=True)
class Count:
    name: str
    ours: int
    vendors: int

    @property
    def extra(self) -> int:
        return self.ours - self.vendors

    @property
    def bound(self) -> int:
        return LARGER.get(self.name, (BOUND, ""))[0]


def arguments(function_type: str) -> list[str]:
    """The types of a function's parameters."""
    found = _FUNCTION_TYPE.match(function_type)
    if found is None:
        raise SystemExit(f"header-matrix: {function_type} is no function's type")
    depth, parts = 0, [""]
    for letter in found["arguments"]:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip() not in ("", "void")]


def _function(name: str, call: str, function_type: str, success: str) -> str:
    types = arguments(function_type)
    # An alias makes a parameter of any type, function pointers too, easy to declare.
    aliases = "".join(f"using {name}_{i} = {type_};\n" for i, type_ in enumerate(types))
    parameters = ", ".join(f"{name}_{i} a{i}" for i in range(len(types)))
    values = ", ".join(f"a{i}" for i in range(len(types)))
    body = f"if ({call}({values}) != {success}) failed();"
    return f'{aliases}extern "C" [[gnu::flatten]] void {name}({parameters}) {{ {body} }}\n'


def generate(subjects: list[Subject], success: str) -> str:
    parts = ['#include <portamem/rt/checker.hpp>\nextern "C" [[gnu::cold]] void failed();\n']
    for subject in subjects:
        ours = f"portamem::rt::{subject.name}"
        parts.append(_function(f"ours_{subject.name}", ours, subject.type, "portamem::rt::Error_t::Success"))
        parts.append(_function(f"theirs_{subject.name}", subject.vendor, subject.vendor_type, success))
    return "".join(parts)


@dataclass
class _Instruction:
    address: int
    word: str
    operand: str
    relocation: str | None = None


def disassemble(text: str) -> dict[str, list[_Instruction]]:
    """Each function of `objdump -dr --no-show-raw-insn`."""
    found: dict[str, list[_Instruction]] = {}
    current: list[_Instruction] = []
    for line in text.splitlines():
        if symbol := _SYMBOL.match(line):
            current = found.setdefault(symbol[1], [])
        elif relocation := _RELOCATION.match(line):
            current[-1].relocation = relocation[1]
        elif instruction := _INSTRUCTION.match(line):
            current.append(_Instruction(int(instruction[1], 16), instruction[2], (instruction[3] or "").strip()))
    return found


@dataclass(frozen=True)
class _State:
    """The state of a way: whether the call was made, which registers hold its answer, how it last compared."""

    called: bool = False
    holds: frozenset[str] = frozenset()
    equal: bool | None = None

    def after(self, instruction: _Instruction) -> _State:
        """The answer is a success, so it is 0 wherever it is."""
        operands = instruction.operand.split(",")
        target = operands[-1]
        if instruction.word in ("test", "cmp", "cmpl"):
            if target not in self.holds:
                return _State(self.called, self.holds)
            compared = operands[0]
            zero = compared == "$0x0" or (instruction.word == "test" and compared in self.holds)
            return _State(self.called, self.holds, zero if zero or compared.startswith("$") else None)
        if instruction.word == "mov" and operands[0] in self.holds and target.startswith("%"):
            return _State(self.called, self.holds | {target}, self.equal)
        # "%rax" and "%al" are as good as "%eax": what writes a part writes the whole. A move leaves the flags alone.
        names = {target, re.sub(r"%r(.x|.i|.p)$", r"%e\1", target), f"{target}d"}
        keeps = instruction.word.startswith(("mov", "lea", "push", "pop"))
        return _State(self.called, self.holds - names, self.equal if keeps else None)


def longest_success(code: list[_Instruction], vendor: str) -> int:
    """Instructions on the longest way from the first to a return that makes the one call of the vendor's."""
    places = {instruction.address: i for i, instruction in enumerate(code)}
    known: dict[tuple[int, _State], int | None] = {}

    def branches(i: int, state: _State) -> list[int | None]:
        here = code[i]
        target = places.get(int(here.operand, 16)) if re.fullmatch("[0-9a-f]+", here.operand) else None
        if target is None and here.relocation is None:
            raise SystemExit(f"header-matrix: cannot follow {here.word} {here.operand}")
        taken = ways(target, state) if target is not None and here.relocation is None else None
        if here.word == "jmp":
            return [taken]
        passed = ways(i + 1, state)
        if state.equal is not None and here.word in ("je", "jne"):
            return [taken if state.equal == (here.word == "je") else passed]
        return [taken, passed]

    def ways(i: int, state: _State) -> int | None:
        """The longest rest of a way; none where it does not end as a success."""
        if i >= len(code):
            return None
        if (i, state) in known:
            return known[i, state]
        known[i, state] = None  # a loop is no way
        here = code[i]
        following: list[int | None] = []
        if here.word.startswith("ret"):
            return 1 if state.called else None
        if here.word.startswith("call"):
            if here.relocation == vendor and not state.called:
                following = [ways(i + 1, _State(True, frozenset({"%eax"})))]
            elif here.relocation not in (None, vendor, "failed") and not VENDOR.match(here.relocation or ""):
                following = [ways(i + 1, _State(state.called, state.holds - {"%eax"}))]
        elif here.word.startswith("j"):
            following = branches(i, state)
        else:
            following = [ways(i + 1, state.after(here))]
        lengths = [length for length in following if length is not None]
        known[i, state] = 1 + max(lengths) if lengths else None
        return known[i, state]

    found = ways(0, _State())
    if found is None:
        raise SystemExit(f"header-matrix: no way through a function calls {vendor} and returns")
    return found


def measure(subjects: list[Subject], flags: list[str], success: str, folder: Path, name: str) -> list[Count]:
    """Compiles and counts. `success` is the vendor's enumerator; `name` is for files in `folder`."""
    if platform.machine() != "x86_64":
        raise SystemExit("header-matrix: instructions are counted on x86_64")
    source, target = folder / f"{name}-instructions.cpp", folder / f"{name}-instructions.o"
    source.write_text(generate(subjects, success), encoding="utf-8")
    options = ["-O2", "-fcf-protection=none", "-fno-stack-protector", "-ffunction-sections", "-c"]
    subprocess.run(["g++", *flags, *options, "-o", str(target), str(source)], check=True)
    command = ["objdump", "-dr", "--no-show-raw-insn", str(target)]
    code = disassemble(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    called = _called(subjects, code)
    return [
        Count(
            subject.name,
            longest_success(code[f"ours_{subject.name}"], called[subject.name]),
            longest_success(code[f"theirs_{subject.name}"], called[subject.name]),
        )
        for subject in subjects
    ]


def _called(subjects: list[Subject], code: Mapping[str, list[_Instruction]]) -> dict[str, str]:
    """The symbol behind each vendor call: its own macro may have renamed it."""
    found = {}
    for subject in subjects:
        symbols = {
            instruction.relocation
            for instruction in code[f"theirs_{subject.name}"]
            if instruction.relocation and instruction.relocation.startswith(subject.vendor)
        }
        found[subject.name] = symbols.pop() if symbols else subject.vendor
    return found


_PAGE = """\
# What rt adds to a vendor's call

Generated by `tools/header-matrix --write`, and checked by `ci/headers.sh`: do not edit.

Instructions on x86_64 from entry to return, on the longest way that succeeds, of a function that calls and goes on when
the answer is a success: once through `portamem::rt`, once by the vendor's own call. They are counted in the compiled
code; none is run. All native functions that answer with an error code are here; what native means, and how many calls
the others make, is in [header-matrix.md](header-matrix.md). What rt does with its instructions: it sets outputs to
null, answers requests of 0 bytes itself, and refuses arguments that would get different answers from different vendors.
It adds at most {bound}, but for the functions with a reason beside them. A call of the C library counts as one."""


def write(counts: Mapping[str, list[Count]], compiler: str) -> str:
    """evidence/rt-instructions.md."""
    names = list(dict.fromkeys(count.name for of in counts.values() for count in of))
    by_name = {of: {count.name: count for count in found} for of, found in counts.items()}
    head = ["function", *(f"{of}: vendor, rt, added" for of in counts), "at most", "because"]
    lines = [head, ["---"] * len(head)]
    for name in names:
        cells = [by_name[of].get(name) for of in counts]
        bound, reason = LARGER.get(name, (BOUND, ""))
        told = [f"{count.vendors}, {count.ours}, {count.extra}" if count else "" for count in cells]
        lines.append([f"`{name}`", *told, str(bound), reason])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{_PAGE.format(bound=BOUND)}\n\nCompiled with {compiler}, `-O2`.\n\n{table}\n"
