# SPDX-License-Identifier: MIT
"""The places in the sources where one token can be exchanged for another, and what for."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from clang.cindex import Index, TokenKind, TranslationUnit

SCOPE = ("csrc/include/portamem", "csrc/host", "csrc/core", "csrc/python")

LEFT_OUT = (
    *("csrc/include/portamem/rt/cuda/", "csrc/include/portamem/rt/hip/"),  # not in a build for host
    *("csrc/include/portamem/portamem.hpp", "csrc/include/portamem/rt/rt.hpp", "csrc/include/portamem/rt/api"),
    *("csrc/include/portamem/rt/enums.hpp", "csrc/include/portamem/rt/error_names.hpp"),
    *("csrc/include/portamem/host/runtime_api.h", "csrc/include/portamem/c_api.h", "csrc/include/portamem/version.h"),
)
"""Beginnings of paths: what a build for host leaves out, the umbrella, and lists of types and names without code."""

PARTS = (
    *("csrc/include/portamem/mr/*adaptor.hpp", "csrc/include/portamem/mr/detail/*adaptor.hpp"),
    *("csrc/include/portamem/mr/detail/recorded.hpp", "csrc/include/portamem/mr/memory_resource.hpp"),
    "csrc/include/portamem/mr/counted_memory_resource.hpp",
    *("csrc/core/record/api.cpp", "csrc/core/record/live.*", "csrc/core/record/recorder.*"),
    *("csrc/core/record/tallies.*", "csrc/core/pool/events.*", "csrc/core/pool/mark.hpp"),
    *("csrc/core/pool/waiting.hpp", "csrc/core/pool/batches.cpp", "csrc/core/pool/reclaim.cpp"),
    *("csrc/core/pool/give.cpp", "csrc/core/pool/heap_path.cpp", "csrc/core/pool/thread_caches.*"),
    *("csrc/include/portamem/event.hpp", "csrc/host/event.hpp", "csrc/host/event_api.cpp"),
    *("csrc/include/portamem/copy.hpp", "csrc/include/portamem/fill.hpp", "csrc/include/portamem/layout.hpp"),
    *("csrc/include/portamem/*span.hpp", "csrc/host/copy*", "csrc/python/copy.cpp"),
    *("csrc/include/portamem/copy_strided.hpp", "csrc/core/staging/host_runs.*", "csrc/core/staging/mover.*"),
)
"""Adaptors and what they count with, events and what pools put behind them, copies: names of files with *."""

BINARY = {
    "<": ("<=", ">="),
    ">": (">=", "<="),
    "<=": ("<", ">="),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "%": ("/",),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|",),
    "|": ("&",),
    "^": ("|",),
    "&&": ("||",),
    "||": ("&&",),
    "+=": ("-=",),
    "-=": ("+=",),
    "*=": ("/=",),
    "/=": ("*=",),
    "|=": ("&=",),
    "&=": ("|=",),
}
"""Operators between two values. The sources are formatted, so these and only these have space on both sides."""

UNARY = {"!": ("",), "~": ("",), "-": ("",), "++": ("--",), "--": ("++",)}
"""Operators at one value: no space between."""

WORDS = {"true": ("false",), "false": ("true",), "continue": ("break",), "break": ("continue",)}
FUNCTIONS = {
    "min": ("max",),
    "max": ("min",),
    "any_of": ("all_of", "none_of"),
    "all_of": ("any_of", "none_of"),
    "lower_bound": ("upper_bound",),
    "upper_bound": ("lower_bound",),
}
"""Words of the standard library, each with those that can take its place."""

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|\d[\d']*)([uUlLzZ]*)")
_TEXTS = ("to_string", "string", "string_view", "to_text", "text_of", "str")
"""Names that make strings."""
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


@dataclass(frozen=True)
class Token:
    kind: str
    """ "word", "name", "literal", "text" or "sign"."""
    text: str
    line: int
    column: int
    begin: int
    """Offsets in bytes."""
    end: int


@dataclass(frozen=True)
class Site:
    """A token that can be exchanged."""

    file: str
    line: int
    column: int
    begin: int
    end: int
    old: str
    choices: tuple[str, ...]
    source: str
    """The line, without the space around it."""
    name: str
    """The same as long as its line is the same, wherever in the file that is."""

    def number(self, seed: int) -> int:
        """A number that is random and its own: the order of the draw."""
        return int.from_bytes(hashlib.sha256(f"{seed}/{self.name}".encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Mutant:
    """One token of one file, exchanged."""

    site: Site
    new: str

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.site.name}/{self.new}".encode()).hexdigest()[:10]

    @property
    def operator(self) -> str:
        return f"{self.site.old} -> {self.new or 'nothing'}"

    def apply(self, text: bytes) -> bytes:
        """The file's contents with the token exchanged. ValueError where it is not what it was."""
        site = self.site
        if text[site.begin : site.end] != site.old.encode():
            raise ValueError(f"{site.file}:{site.line}: {site.old!r} is gone")
        return text[: site.begin] + self.new.encode() + text[site.end :]


def files(root: Path) -> list[str]:
    """The files whose tokens are exchanged, relative to the checkout."""
    found = [
        path.relative_to(root).as_posix()
        for folder in SCOPE
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".cpp", ".hpp", ".h")
    ]
    return [file for file in found if not file.startswith(LEFT_OUT)]


def draw(root: Path, seed: int, within: Sequence[str] = ("*",)) -> Iterator[Mutant]:
    """All mutants of a checkout, one for each site, in the order of the draw. A change elsewhere leaves it as it is.
    ``within``: only of files with such names."""
    drawn = [file for file in files(root) if any(fnmatchcase(file, name) for name in within)]
    sites = [site for file in drawn for site in sites_of(file, (root / file).read_bytes())]
    for site in sorted(sites, key=lambda site: site.number(seed)):
        yield Mutant(site, site.choices[site.number(seed + 1) % len(site.choices)])


def sites_of(file: str, text: bytes) -> list[Site]:
    """The sites of one file."""
    tokens = tokens_of(text)
    out = _not_code(tokens)
    lines = text.decode("utf-8").splitlines()
    seen: Counter[str] = Counter()
    found = []
    for i, token in enumerate(tokens):
        choices = () if i in out else _choices(tokens, i, text)
        if not choices:
            continue
        source = lines[token.line - 1].strip()
        within = token.column - (len(lines[token.line - 1]) - len(lines[token.line - 1].lstrip()))
        name = f"{file}/{source}/{within}/{token.text}"
        seen[name] += 1
        found.append(
            Site(
                *(file, token.line, token.column, token.begin, token.end, token.text, choices, source),
                f"{name}/{seen[name]}",
            )
        )
    return found


@lru_cache(maxsize=1024)  # each draw asks for those of every file
def tokens_of(text: bytes) -> tuple[Token, ...]:
    """The tokens of C++ without its comments, by clang's own lexer. Nothing that is included is looked for."""
    name = "source.cpp"
    unit = Index.create().parse(
        name,
        args=["-x", "c++", "-std=c++17", "-nostdinc"],
        unsaved_files=[(name, text.decode("utf-8"))],
        options=TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
    )
    kinds = {TokenKind.KEYWORD: "word", TokenKind.IDENTIFIER: "name", TokenKind.PUNCTUATION: "sign"}
    found = []
    for token in unit.get_tokens(extent=unit.cursor.extent):
        if token.kind is TokenKind.COMMENT:
            continue
        spelling, extent = token.spelling, token.extent
        begin = extent.start
        kind = kinds.get(token.kind, "literal")
        if kind == "literal" and spelling.endswith(("'", '"')):
            kind = "text"
        found.append(Token(kind, spelling, begin.line, begin.column, begin.offset, extent.end.offset))
    return tuple(found)


def _choices(tokens: Sequence[Token], i: int, text: bytes) -> tuple[str, ...]:
    """The texts that a token can be exchanged for; none where it is no target."""
    token, before = tokens[i], tokens[i - 1] if i else None
    if token.kind == "literal":
        return _integers(token.text)
    if token.kind == "word":
        return WORDS.get(token.text, ())
    if token.kind == "name":
        of_std = i > 1 and tokens[i - 1].text == "::" and tokens[i - 2].text == "std"
        return FUNCTIONS.get(token.text, ()) if of_std else ()
    if before is not None and before.text == "operator":
        return ()
    apart = (text[token.begin - 1 : token.begin].isspace(), text[token.end : token.end + 1].isspace())
    if all(apart):
        return BINARY.get(token.text, ())
    return UNARY.get(token.text, ()) if not apart[1] or token.text in ("++", "--") else ()


def _integers(literal: str) -> tuple[str, ...]:
    """An integer's neighbours, in decimal; nothing for any other literal."""
    if not (found := _INTEGER.fullmatch(literal)):
        return ()
    value = int(found[1].replace("'", ""), 16 if found[1][:2].lower() == "0x" else 10)
    return tuple(f"{near}{found[2]}" for near in (value + 1, value - 1) if near >= 0)


def _not_code(tokens: Sequence[Token]) -> set[int]:
    """Tokens that are no targets: directives, static assertions, enumerators, pure virtuals, attributes, messages, and
    first values that a call overwrites."""
    out: set[int] = set()
    for i, token in enumerate(tokens):
        if token.text == "#" and (i == 0 or tokens[i - 1].line != token.line):
            out.update(_directive(tokens, i))
        elif token.text == "static_assert":
            out.update(range(i, _partner(tokens, i + 1) + 1))
        elif token.text == "enum":
            body = next((k for k in range(i, len(tokens)) if tokens[k].text in ("{", ";")), i)
            if tokens[body].text == "{":
                out.update(range(body, _partner(tokens, body) + 1))
        elif token.text == "0" and i + 1 < len(tokens) and tokens[i - 1].text == "=" and tokens[i + 1].text == ";":
            if tokens[i - 2].text in (")", "const", "noexcept", "override"):
                out.add(i)
        elif token.text == "?" and i + 1 < len(tokens) and tokens[i + 1].kind == "text":
            out.update(_condition(tokens, i))
        elif token.text == "[" and i + 1 < len(tokens) and tokens[i + 1].text == "[":
            out.update(range(i, _partner(tokens, i) + 1))
        elif token.text in ("+", "+=") and _joins_text(tokens, i):
            out.add(i)
        if (token.kind == "literal" or token.text in ("true", "false")) and _is_overwritten(tokens, i):
            out.add(i)
    return out


def _directive(tokens: Sequence[Token], i: int) -> Iterator[int]:
    """A directive; one that goes on in the next line has a backslash at its end, which is no token."""
    last = i
    while last + 1 < len(tokens) and tokens[last + 1].line == tokens[i].line:
        last += 1
    yield from range(i, last + 1)


def _partner(tokens: Sequence[Token], i: int) -> int:
    """The index of the bracket that closes the one at ``i``."""
    depth = 0
    for k in range(i, len(tokens)):
        depth += (tokens[k].text in _OPENING) - (tokens[k].text in _CLOSING)
        if depth == 0:
            return k
    return len(tokens) - 1


def _is_overwritten(tokens: Sequence[Token], i: int) -> bool:
    """True where this is the first value of a variable that is then given to a call for its result."""
    if i < 2 or i + 1 >= len(tokens) or tokens[i - 1].text != "=" or tokens[i + 1].text != ";":
        return False
    variable = tokens[i - 2]
    following = (k for k in range(i + 1, min(i + 80, len(tokens))) if tokens[k].text == variable.text)
    use = next(following, None)
    return variable.kind == "name" and use is not None and tokens[use - 1].text == "&" and tokens[use - 2].text in "(,"


def _joins_text(tokens: Sequence[Token], i: int) -> bool:
    """True where a plus stands between strings: somewhere in the same sum there is one."""
    for step in (1, -1):
        depth, k = 0, i + step
        while 0 <= k < len(tokens):
            token = tokens[k]
            depth += step * ((token.text in _OPENING) - (token.text in _CLOSING))
            if depth < 0 or (depth == 0 and token.text in (",", ";", "=", "?", ":", "return", "throw", "{", "}")):
                break
            if depth == 0 and (token.kind == "text" or token.text in _TEXTS):
                return True
            k += step
    return False


def _condition(tokens: Sequence[Token], i: int) -> Iterator[int]:
    """The tokens before a question mark, back to where that expression begins."""
    depth = 0
    for k in range(i - 1, -1, -1):
        depth += (tokens[k].text in _CLOSING) - (tokens[k].text in _OPENING)
        if depth < 0 or (depth == 0 and tokens[k].text in (",", ";", "+", "+=", "=", "return", ":", "<<", "}")):
            return
        yield k


def sums(mutants: Iterable[Mutant]) -> Counter[str]:
    """Counts the mutants of each folder."""
    return Counter(mutant.site.file.rpartition("/")[0] for mutant in mutants)
