# SPDX-License-Identifier: MIT
"""Compile portamem's headers under every header set, and say what stands behind each function of rt.

tools/header-matrix            fetch, read, compile, count, and fail where the pages in evidence are not what comes out
tools/header-matrix --write    the same, and write evidence/header-matrix.md and evidence/rt-instructions.md
tools/header-matrix --fetch    only fetch the headers, for a run without a network
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from header_matrix import instructions, judge, page, reader, sets, unit

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "evidence/header-matrix.md"
COUNTS = ROOT / "evidence/rt-instructions.md"
GXX = r"\) (\d[\d.]*)"
#: The sets in which instructions are counted.
COUNTED = ("CUDA 13.0", "HIP 7.1 AMD")
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Werror")


@dataclass(frozen=True)
class Read:
    """A header set, read: what a process hands back."""

    version: str
    rows: Mapping[str, tuple[str, str | None, judge.Verdict]]  #: by function: header, capability, verdict
    unit: str
    counts: list[instructions.Count]


@dataclass(frozen=True)
class Compilation:
    what: str
    command: tuple[str, ...]


def header_version(header_set: sets.HeaderSet, included: list[Path]) -> str:
    """The version that the headers themselves state. Another than the set's, or a mixture of two, ends the program."""
    places = [source.place(Path()) for source in header_set.sources]
    found: dict[str, str] = {}
    for file in included:
        if file.name not in ("cuda_runtime_api.h", "hip_version.h"):
            continue
        if places and file.name == "cuda_runtime_api.h" and not any(str(place) in str(file) for place in places):
            raise SystemExit(f"header-matrix: {header_set.name} took {file}")
        defined = re.findall(r"#define +(CUDART_VERSION|HIP_VERSION_(?:MAJOR|MINOR|PATCH)) +(\d+)", file.read_text())
        found.update(defined)
    for macro, value in header_set.version:
        if found.get(macro) != value:
            raise SystemExit(f"header-matrix: {header_set.name}: {macro} is {found.get(macro)} and should be {value}")
    stated = []
    if "HIP_VERSION_MAJOR" in found:
        stated.append("HIP " + ".".join(found[f"HIP_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH")))
    if "CUDART_VERSION" in found:
        number = int(found["CUDART_VERSION"])
        stated.append(f"CUDA {number // 1000}.{number % 1000 // 10}")
    return " over ".join(stated) or "portamem's own"


def read(header_set: sets.HeaderSet, headers: Path, build: Path) -> Read:
    reading = reader.read(header_set.flags(headers))
    included = [Path(str(inclusion.include)) for inclusion in reading.unit.get_includes()]
    hip = {file.parent for file in included if file.name in ("hip_version.h", "hip_runtime_api.h")}
    if len({folder.parent for folder in hip}) > 1:
        raise SystemExit(f"header-matrix: {header_set.name} mixes headers of {' and '.join(map(str, hip))}")
    generated = build / f"{header_set.slug}.cpp"
    generated.write_text(unit.generate(reading.unit), encoding="utf-8")
    functions = reading.functions
    rows = {
        name: (
            function.header,
            judge.capability(function, reading.capabilities),
            judge.judge(function, functions, header_set.backend),
        )
        for name, function in functions.items()
    }
    counts = []
    if header_set.name in COUNTED:
        subjects = _subjects(functions, {name: row[2] for name, row in rows.items()}, judge.PREFIX[header_set.backend])
        success = judge.PREFIX[header_set.backend] + "Success"
        counts = instructions.measure(subjects, header_set.flags(headers), success, build, header_set.slug)
    return Read(header_version(header_set, included), rows, str(generated), counts)


def _subjects(
    functions: Mapping[str, reader.Function], verdicts: Mapping[str, judge.Verdict], prefix: str
) -> list[instructions.Subject]:
    """The native functions that answer with an error code."""
    return [
        instructions.Subject(name, function.type, prefix + name, function.types[prefix + name])
        for name, function in functions.items()
        if verdicts[name].word == "native"
        and verdicts[name].calls
        and function.type.startswith("portamem::rt::Error_t")
    ]


def compilations(header_set: sets.HeaderSet, headers: Path, source: str) -> list[Compilation]:
    # Some of g++'s warnings come from its optimizer; clang++'s do not. One set of each backend has the code they are
    # about.
    output = ("-O1", "-c", "-o", os.devnull) if header_set.name in ("host", *COUNTED) else ("-fsyntax-only",)
    flags = header_set.flags(headers)
    jobs = [
        Compilation(f"{header_set.name}, g++", ("g++", *flags, *STRICT, *output, source)),
        Compilation(f"{header_set.name}, clang++", ("clang++", *flags, *STRICT, "-fsyntax-only", source)),
    ]
    include = f"-I{sets.INCLUDE}"
    if (nvcc := nvcc_release()) and header_set.name == f"CUDA {nvcc}":
        host = "-Xcompiler=-Wall,-Wextra,-Werror"
        command = ("nvcc", "-x", "cu", "-std=c++17", "-arch=sm_80", include, "-DPORTAMEM_CUDA=1", host)
        jobs.append(
            Compilation(f"{header_set.name}, nvcc", (*command, "-Werror=all-warnings", "-c", "-o", os.devnull, source))
        )
    if shutil.which("hipcc") and header_set.name == "HIP 5.2 AMD":
        target = ("-x", "hip", "--offload-arch=gfx90a", "-std=c++17", include, "-DPORTAMEM_HIP=1", *STRICT)
        jobs.append(Compilation(f"{header_set.name}, hipcc", ("hipcc", *target, "-c", "-o", os.devnull, source)))
    return jobs


def why_not(header_set: sets.HeaderSet, headers: Path) -> str:
    needed = [(header_set.sources[0].place(headers), header_set.needs)] if header_set.needs else []
    return reader.why_not(header_set.flags(headers), needed)


def compile_one(job: Compilation) -> str:
    """Empty where it went well."""
    done = subprocess.run(job.command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{' '.join(job.command)}\n{done.stdout}{done.stderr}"


def nvcc_release() -> str | None:
    return _version("nvcc", r"release (\d+\.\d+)")


def _version(program: str, pattern: str) -> str | None:
    if shutil.which(program) is None:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(pattern, said)
    return found[1] if found else None


def compilers() -> str:
    patterns = {
        "g++": GXX,
        "clang++": r"version (\d[\d.]*)",
        "nvcc": r"V(\d[\d.]*)",
        "hipcc": r"HIP version: (\d[\d.]*)",
    }
    found = {program: _version(program, pattern) for program, pattern in patterns.items()}
    return ", ".join(f"{program} {version}" for program, version in found.items() if version) + "."


def everything(headers: Path, build: Path, workers: int) -> dict[str, Read]:
    """Reads and compiles all sets side by side. The first failure is shown and ends the program."""
    readings: dict[str, Read] = {}
    with ProcessPoolExecutor(workers) as pool:
        reads = {pool.submit(read, header_set, headers, build): header_set for header_set in sets.SETS}
        compiles: dict[Future[str], str] = {}
        for done in as_completed(reads):
            header_set = reads[done]
            readings[header_set.name] = done.result()
            for job in compilations(header_set, headers, readings[header_set.name].unit):
                compiles[pool.submit(compile_one, job)] = job.what
        failed = False
        for finished in as_completed(compiles):
            said = finished.result()
            failed |= bool(said)
            print(f"{'FAILED' if said else 'compiled'}: {compiles[finished]}\n{said}".rstrip(), flush=True)
    if failed:
        raise SystemExit("header-matrix: not everything compiles")
    for tool in ("nvcc", "hipcc"):
        if not any(what.endswith(tool) for what in compiles.values()):
            print(f"not compiled with {tool}: it is not here, or its headers are of no set")
    return readings


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tools/header-matrix", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fetch", action="store_true", help="fetch the header sets, and do nothing else")
    what.add_argument("--write", action="store_true", help="write the pages in docs")
    what.add_argument("--check", action="store_true", help="compare the pages in docs (the default)")
    options = parser.parse_args()

    folder = Path(os.environ.get("CI_DIR", ROOT / "build/ci")) / "header-matrix"
    folder.mkdir(parents=True, exist_ok=True)
    headers = folder / "headers"
    sets.fetch_all(headers)
    if options.fetch:
        return

    readings = everything(headers, folder, int(os.environ.get("JOBS", os.cpu_count() or 1)))
    first = readings[sets.SETS[0].name]
    verdicts = {
        name: {header_set.name: readings[header_set.name].rows[name][2] for header_set in sets.SETS}
        for name in first.rows
    }
    rows = [page.Row(name, header, capability, verdicts[name]) for name, (header, capability, _) in first.rows.items()]
    (folder / "header-matrix.json").write_text(
        json.dumps(
            {name: {of: judge.as_json(verdict) for of, verdict in cells.items()} for name, cells in verdicts.items()},
            indent=1,
        ),
        encoding="utf-8",
    )
    impossible = {}
    for header_set in sets.IMPOSSIBLE:
        impossible[header_set.name] = why_not(header_set, headers)
        if not impossible[header_set.name]:
            raise SystemExit(f"header-matrix: {header_set.name} compiles now: make it one of SETS")
    versions = {name: reading.version for name, reading in readings.items()}
    generated = page.write(sets.SETS, versions, rows, impossible, compilers())
    counts = {name: readings[name].counts for name in COUNTED}
    compiler = f"g++ {_version('g++', GXX)}"
    counted = instructions.write(counts, compiler)
    if options.write:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(generated, encoding="utf-8")
        COUNTS.write_text(counted, encoding="utf-8")
    else:
        committed = _text(PAGE)
        if not page.same(committed, generated):
            stale(PAGE, committed, generated)
        # Another compiler counts otherwise; then only the bounds hold.
        if compiler in _text(COUNTS) and _text(COUNTS) != counted:
            stale(COUNTS, _text(COUNTS), counted)
    if over := [f"{of}: {c.name} adds {c.extra}" for of in counts for c in counts[of] if c.extra > c.bound]:
        raise SystemExit("header-matrix: rt adds more instructions than it may\n" + "\n".join(over))
    # A part of a report of tools/report.py: a set that does not compile has ended this program above.
    compiled = [
        {"what": "headers compile", "backend": each.backend, "on": f"g++, clang++; {each.name}", "result": "passed"}
        for each in sets.SETS
    ]
    (folder / "compiled.json").write_text(json.dumps({"rows": compiled}, indent=1), encoding="utf-8")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def stale(file: Path, committed: str, generated: str) -> NoReturn:
    before, after = (text.splitlines(keepends=True) for text in (committed, generated))
    sys.stdout.writelines(difflib.unified_diff(before, after, "committed", "generated"))
    raise SystemExit(f"header-matrix: evidence/{file.name} is not what the sources say: tools/header-matrix --write")


if __name__ == "__main__":
    main()
