"""The source rules of the design, each a function from sources to a list of violations.

Sources are a mapping from a path relative to the checkout to the file's text, so that each rule can be shown to fail
on a planted violation.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

Sources = Mapping[str, str]

HEADERS = "csrc/include/portamem/"
GROUND_FLOOR = HEADERS + "rt/"
TWINS = ("cuda", "hip", "host")
CONTRACTS = "api"

# Python code that uses the vendors' own Python packages, or their names: interoperation, programs of other libraries,
# raw calls to compare with, conformance.
_TALKS_TO_VENDOR_PACKAGES = (
    *("portamem/_foreign.py", "portamem/interop/", "portamem/compat/"),
    *("portamem/demo/rates.py", "portamem/conformance/"),
)

_CPP_COMMENT_OR_STRING = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.VERBOSE | re.DOTALL
)
_VENDOR_SPELLING = re.compile(r"\b(?:cuda|hip|cu)[A-Z_]\w*")
_BACKEND_MACRO = re.compile(r"\bPORTAMEM_(?:CUDA|HIP|HOST)\b")
_BACKEND_COMPARED = re.compile(r"(?:[=!]=\s*(?:\w+::)*BackendName\b)|(?:\bBackendName\b\s*(?:\(\s*\))?\s*[=!]=)")
_INCLUDE = re.compile(r'^\s*#\s*include\s*"(portamem/[^"]+)"', re.MULTILINE)
_FUNCTION = re.compile(r"^(?:inline|constexpr|template\b.*|static)\b[^;{}()=]*?\b(\w+)\(", re.MULTILINE)


def read_sources(root: Path) -> dict[str, str]:
    """Every C++ and Python source of portamem, of its tests and of its tools."""
    cpp, python = ("*.cpp", "*.hpp", "*.h"), ("*.py", "*.pyi")
    folders = {"csrc": cpp, "portamem": python, "tests": cpp + python, "tools": python, "ci": python}
    files = [
        path
        for folder, patterns in folders.items()
        for pattern in patterns
        for path in sorted((root / folder).rglob(pattern))
    ]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _blank(text: str) -> str:
    """The same number of lines, with nothing on them."""
    return re.sub(r"[^\n]", " ", text)


def cpp_code(text: str) -> str:
    """C++ without its comments; line numbers stay."""
    return _CPP_COMMENT_OR_STRING.sub(lambda m: _blank(m[0]) if m[0][0] == "/" else m[0], text)


def python_comments(text: str) -> Iterator[tokenize.TokenInfo]:
    """The comments and docstrings of Python: a docstring is a string at the beginning of a statement."""
    statement_begins, brackets = True, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and statement_begins):
            yield token
        if token.type == tokenize.OP:
            brackets += (token.string in "([{") - (token.string in ")]}")
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL):
            statement_begins = brackets == 0
        elif token.type != tokenize.COMMENT:
            statement_begins = False


def python_code(text: str) -> str:
    """Python without comments and docstrings; line numbers stay."""
    lines = [list(line) for line in text.splitlines(keepends=True)]
    for token in python_comments(text):
        (row, column), (last_row, last_column) = token.start, token.end
        for line in range(row - 1, last_row):
            begin = column if line == row - 1 else 0
            end = last_column if line == last_row - 1 else len(lines[line])
            lines[line][begin:end] = _blank("".join(lines[line][begin:end]))
    return "".join("".join(line) for line in lines)


def is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def code_of(path: str, text: str) -> str:
    return python_code(text) if is_python(path) else cpp_code(text)


def comments_of(path: str, text: str) -> list[tuple[int, str]]:
    """Each comment or docstring, with the number of the line that it begins on."""
    if is_python(path):
        return [(token.start[0], token.string) for token in python_comments(text)]
    found = [match for match in _CPP_COMMENT_OR_STRING.finditer(text) if match[0][0] == "/"]
    return [(text.count("\n", 0, match.start()) + 1, match[0]) for match in found]


def _found(pattern: re.Pattern[str], path: str, code: str) -> list[str]:
    return [f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {m[0].strip()}" for m in pattern.finditer(code)]


def talks_to_vendor_packages(path: str) -> bool:
    return path.startswith(_TALKS_TO_VENDOR_PACKAGES)


def vendor_spellings(sources: Sources) -> list[str]:
    """Rule 1: vendor spellings occur only in the ground floor and in code that talks to vendor packages."""
    return [
        line
        for path, text in sources.items()
        if path.startswith(("csrc/", "portamem/"))
        if not path.startswith(GROUND_FLOOR) and not talks_to_vendor_packages(path)
        for line in _found(_VENDOR_SPELLING, path, code_of(path, text))
    ]


def vendor_questions(sources: Sources) -> list[str]:
    """Rule 2: nothing above the ground floor asks which vendor it is built for."""
    return [
        line
        for path, text in sources.items()
        if path.startswith("csrc/") and not path.startswith(GROUND_FLOOR) and path != HEADERS + "backend.hpp"
        for pattern in (_BACKEND_MACRO, _BACKEND_COMPARED)
        for line in _found(pattern, path, cpp_code(text))
    ]


def functions_of(text: str) -> list[str]:
    """Names of the API functions of a ground floor header, in order. Helpers of its own begin with a small letter."""
    names = [match[1] for match in _FUNCTION.finditer(cpp_code(text))]
    return [name for name in names if name[0].isupper()]


def twin_differences(sources: Sources) -> list[str]:
    """Rule 3: rt/cuda, rt/hip and rt/host define what rt/api declares, file by file, in the same order."""
    twins: dict[str, dict[str, list[str]]] = {}
    for path, text in sources.items():
        folder, _, name = path.removeprefix(GROUND_FLOOR).partition("/")
        if path.startswith(GROUND_FLOOR) and folder in (*TWINS, CONTRACTS) and name:
            twins.setdefault(name, {})[folder] = functions_of(text)
    differences = []
    for name, functions in sorted(twins.items()):
        declared = functions.get(CONTRACTS, [])
        for vendor in TWINS:
            defined = functions.get(vendor, [])
            differences += [f"rt/{vendor}/{name} lacks {f}" for f in declared if f not in defined]
            differences += [
                f"rt/{vendor}/{name} has {f}, which rt/api does not declare" for f in defined if f not in declared
            ]
            if sorted(defined) == sorted(declared) and defined != declared:
                differences.append(f"rt/{vendor}/{name} has another order: {defined}")
    return differences


def calls_without_a_device(table: str) -> list[str]:
    """The functions that the table of tests/cpp/rt_nodevice.cpp names."""
    return re.findall(r"^ *(?:CALL|MAKE)\((\w+),", cpp_code(table), re.MULTILINE)


# A new header belongs to the second floor until it is named here.
_FIRST_FLOOR = {
    *("error", "capabilities", "device", "device_guard", "location", "pointer_info"),
    *("stream", "event", "capture", "kept", "probe", "quirks", "device_wait", "leaving", "reaper"),
    *("process_object", "handle_use", "handles_of_thread", "stream_users", "declared_work"),
    *("detail/embedder", "detail/hearing", "detail/spare_events", "detail/unfinished_work"),
    *(f"detail/stream_{part}" for part in ("capture", "close", "lookup", "marks", "waits")),
}
_BELOW_ALL = {
    *("backend", "c_api", "detail/sanitizers", "fwd", "version"),
    *("detail/chore", "detail/light_vector", "detail/number_map"),
    *("detail/owned", "detail/shared", "detail/thread"),
}


def floor_of(path: str) -> int:
    """The floor of a header or source. 0 may be included by all, 1 is rt and the host runtime under it."""
    if path.startswith("csrc/python/"):
        return 5
    name = path.removeprefix(HEADERS)
    stem = name.rpartition(".")[0]
    if name == "portamem.hpp":
        return 4
    if name.startswith(("rt/", "host/")):
        return 1
    if name.startswith("abi/") or stem in _BELOW_ALL:
        return 0
    return 2 if stem in _FIRST_FLOOR else 3


def upward_includes(sources: Sources) -> list[str]:
    """Dependencies point one way: no header includes one of a floor above its own."""
    return [
        f"{path} includes {included}, which is of a floor above"
        for path, text in sources.items()
        if path.startswith((HEADERS, "csrc/python/"))
        for included in _INCLUDE.findall(text)
        if floor_of(HEADERS + included.removeprefix("portamem/")) > floor_of(path)
    ]


# Everything that takes the GIL, or looks at the exception that is on its way, by other means than gil.hpp's.
_OWN_WAY_TO_PYTHON = re.compile(
    r"\b(?:PyGILState_Ensure|gil_scoped_acquire|error_scope|PyErr_Fetch|PyErr_Restore|Py(?:_|Err_)[GS]etRaisedException)\b"
)
# Python calls what these name as it lets go of an object, maybe with an exception set. A null destructor calls nothing.
_LETTING_GO = re.compile(r"\bPyCapsule_New\b(?!\([^;]*,\s*nullptr\))|\bPy_tp_dealloc\b")


def ways_to_python(sources: Sources) -> list[str]:
    """C++ calls Python by gil.hpp's guards, which put the exception that is on its way aside, and by nothing else."""
    found = []
    for path, text in sources.items():
        if not path.startswith("csrc/") or path == "csrc/python/gil.hpp":
            continue
        code = cpp_code(text)
        found += _found(_OWN_WAY_TO_PYTHON, path, code)
        if "const PendingErrorKept pending;" not in code:
            found += _found(_LETTING_GO, path, code)
    return found


_MOST_COLUMNS = 120
_UNCLEAR = re.compile(r"\b(?:nobody|somebody|anybody|everybody|whoever)(?:'s)?\b", re.IGNORECASE)
_BEGIN = r"""(?://+<?|/\*[*\s]*|\#+:?|[rR]?\"{3}|[rR]?'{3})\s*"""
_UNCLEAR_OPENING = re.compile(_BEGIN + r"(?:Of|What|Who|Whose|Whether)\b")
_REFERENCE = (".pyi", "portamem/_words.py")
# Comments of csrc/ may begin with "Whether", and with a few forms of "What" and "Of".
_UNCLEAR_OPENING_IN_CSRC = re.compile(_BEGIN + r"(?:Of (?:an?|the|it|that|those|its)|What (?:is|was|has|the|it)|Who)\b")


def long_lines(sources: Sources) -> list[str]:
    """No line of C++ has more columns than the formatter gives code: it leaves comments alone. Ruff reads Python."""
    return [
        f"{path}:{number} has {len(line)} columns"
        for path, text in sources.items()
        if not is_python(path)
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > _MOST_COLUMNS
    ]


def unclear_comments(sources: Sources) -> list[str]:
    """Comments and docstrings name the actor, and begin with their subject (CONTRIBUTING, Words).

    The reference may begin otherwise: each text there is below the name that it tells of.
    """
    found = []
    for path, text in sources.items():
        opening = _UNCLEAR_OPENING_IN_CSRC if path.startswith("csrc/") else _UNCLEAR_OPENING
        lines = ["", *text.splitlines()]
        for number, comment in comments_of(path, text):
            found += [f"{path}:{number} says {word[0]!r}" for word in _UNCLEAR.finditer(comment)]
            # A comment that goes on from the line above has its beginning there.
            above, own = lines[number - 1].lstrip(), lines[number].lstrip()
            goes_on = above[:1] == own[:1] == comment[0] and "SPDX" not in above
            if opening.match(comment) and not goes_on and not path.endswith(_REFERENCE):
                found.append(f"{path}:{number} begins with {comment[:30]!r}")
    return found


def sources_without_bindings(sources: Sources) -> list[str]:
    """Sources of the modules that include bindings.hpp neither themselves nor through a header. ci/headers.sh parses it
    once for all."""

    def includes(path: str, seen: set[str]) -> set[str]:
        if path in seen or path not in sources:
            return seen
        seen.add(path)
        for name in re.findall(r'^#include "([^"]+)"', sources[path], re.MULTILINE):
            includes(os.path.normpath(os.path.join(os.path.dirname(path), name)), seen)
        return seen

    # ci/headers.sh compiles these without it.
    apart = ("csrc/python/knobs/", "csrc/python/plugins/torch_error.cpp")
    bindings = "csrc/python/bindings.hpp"
    modules = [path for path in sources if path.startswith("csrc/python/") and path.endswith(".cpp")]
    return [path for path in modules if not path.startswith(apart) and bindings not in includes(path, set())]


def programs_in_the_checkout(sources: Sources) -> list[str]:
    """A test starts Python in a folder that it names: in the checkout, ``import portamem`` finds the source folder."""
    return [
        f"{path}:{call.lineno} starts Python where the tests were started"
        for path, text in sources.items()
        if path.startswith("tests/") and is_python(path) and "sys.executable" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).startswith("subprocess.")
        and re.search(r"sys\.executable, '-[cm]'", ast.unparse(call))
        and not any(keyword.arg == "cwd" for keyword in call.keywords)
    ]


def vendor_in_library(sources: Sources) -> list[str]:
    """libportamem is vendor-free: its sources include the C ABI and the host runtime's own headers only."""
    return [
        f"{path} includes {included}"
        for path, text in sources.items()
        if path.startswith(("csrc/core/", "csrc/host/"))
        for included in _INCLUDE.findall(text)
        if re.match(r"portamem/rt/(cuda|hip)\b", included) or floor_of(HEADERS + included.removeprefix("portamem/")) > 1
    ]
