# SPDX-License-Identifier: MIT
"""A copy of the checkout that is built for host only, changed, built again, and tried with the conformance suite."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_NOT_BUILT = ("docs", "evidence", "benchmarks", "examples", "tests", "ci", "tools", "build", "dist", "shared")
_MADE = (".so", ".pyc", "_build_info.json")
"""Ends of what a build or a run leaves beside the sources."""


@dataclass(frozen=True)
class Trial:
    """The outcome of a run of the conformance suite."""

    passed: bool
    how: str
    """Empty, or how it ended: "failed", "timeout", or "crash" where the suite itself could not run."""
    clauses: tuple[str, ...]
    """Ids of clauses that failed."""
    seconds: float
    said: str = ""
    """The first failure, in short."""
    held: tuple[str, ...] = ()
    """Ids of clauses that were seen to hold, where all did."""


class BuildFailed(Exception):  # noqa: N818  (an answer: most mutants that do not compile are no fault)
    """The sources do not compile, link or load. The text is the end of what the tools said."""


class Workshop:
    """One copy. ``tree`` holds the sources, with the native modules beside the Python files."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self._build = folder / "build"
        self._kept = folder / "kept"
        self._source = source

    def prepare(self) -> None:
        """Takes the checkout as it is now, and builds what changed since the last time."""
        files = checkout_files(self._source)
        for file in files:
            _copy_if_changed(self._source / file, self.tree / file)
        for path in sorted(self.tree.rglob("*")):
            known = path.relative_to(self.tree).as_posix()
            if path.is_file() and known not in files and path.suffix in (".py", ".pyi", ".cpp", ".hpp", ".h"):
                path.unlink()
        options = {
            "CMAKE_BUILD_TYPE": "Debug",
            "CMAKE_CXX_FLAGS_DEBUG": "-O0",
            "CMAKE_CXX_COMPILER": compiler(),
            "CMAKE_LIBRARY_OUTPUT_DIRECTORY": str(self.tree / "portamem"),
            "PORTAMEM_BACKENDS": "host",
            "PORTAMEM_PYTHON": "ON",
            "Python_EXECUTABLE": sys.executable,
            "pybind11_DIR": _say([sys.executable, "-P", "-m", "pybind11", "--cmakedir"]),
        }
        defined = [f"-D{name}={value}" for name, value in options.items()]
        self._call([tool("cmake"), "-S", str(self.tree), "-B", str(self._build), "-G", "Ninja", *defined])
        self._build_tree()
        shutil.copy(self._build / "_build_info.json", self.tree / "portamem")
        shutil.rmtree(self._kept, ignore_errors=True)
        for product in self._products():
            kept = self._kept / product.relative_to(self.folder)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(product, kept)

    def _products(self) -> list[Path]:
        """The files that a build writes: objects, modules, and ninja's own notes of what it built from what."""
        notes = [self._build / name for name in (".ninja_log", ".ninja_deps")]
        objects = [path for path in self._build.rglob("*.o") if "CMakeFiles/_" in str(path) or "portamem" in str(path)]
        return [*notes, *objects, *(self.tree / "portamem").glob("*.so")]

    def _build_tree(self) -> None:
        load = max(8, os.cpu_count() or 1)
        self._call([tool("ninja"), "-C", str(self._build), "-j2", f"-l{load}"])

    @contextmanager
    def changed(self, contents: Mapping[str, bytes]) -> Iterator[None]:
        """The tree with some files exchanged, built; afterwards everything is as before, times of change and all, so
        that the next build has only its own change to build. BuildFailed with what the compiler said."""
        originals = {file: self._kept / "tree" / file for file in contents}
        for file, original in originals.items():
            original.parent.mkdir(parents=True, exist_ok=True)
            if not original.exists():
                shutil.copy2(self.tree / file, original)
        try:
            for file, text in contents.items():
                (self.tree / file).write_bytes(text)
            if any(not file.endswith(".py") for file in contents):
                self._build_tree()
            yield
        finally:
            for kept in self._kept.rglob("*"):
                if kept.is_file():
                    _restore(kept, self.folder / kept.relative_to(self._kept))

    def conformance(
        self, select: Sequence[str] = (), *, timeout: float, environment: Mapping[str, str] | None = None, **flags: bool
    ) -> Trial:
        """Runs the suite. ``first_failure=True`` ends it there."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            report = Path(folder) / "report.json"
            command = [
                sys.executable,
                "-P",
                "-m",
                "portamem",
                "conformance",
                "--backend",
                "host",
                "--json",
                str(report),
            ]
            command += [word for each in select for word in ("--select", each)]
            command += [f"--{name.replace('_', '-')}" for name, on in flags.items() if on]
            begun = time.monotonic()
            status, said = _run_all_of(command, self._environment(environment or {}), folder, timeout)
            seconds = time.monotonic() - begun
            if status is None:
                return Trial(False, "timeout", (), seconds, said)
            if not report.exists():
                return Trial(False, "crash", (), seconds, said)
            return _trial(json.loads(report.read_text(encoding="utf-8")), status, seconds, said)

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The caller's, without what would decide what is tested."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PORTAMEM_")}
        path = os.pathsep.join(filter(None, (str(self.tree), os.environ.get("PYTHONPATH"))))
        return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", **extra}

    def _call(self, command: Sequence[str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False)
        if done.returncode:
            raise BuildFailed((done.stdout + done.stderr)[-4000:])


def checkout_files(source: Path = ROOT) -> set[str]:
    """The files of a checkout that a build for host needs: tracked, or new and not ignored. In a copy without a
    repository, the files that are there but for what was built."""
    if (source / ".git").exists():
        command = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    else:
        folders = [path for path in source.iterdir() if path.is_dir() and path.name not in _NOT_BUILT]
        paths = [*source.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
        found = [path.relative_to(source).as_posix() for path in paths if not path.name.endswith(_MADE)]
    return {
        file
        for file in found
        if file and not file.startswith(".") and file.split("/")[0] not in _NOT_BUILT and (source / file).is_file()
    }


def compiler() -> str:
    """clang++ where it is there: without optimisation it takes half of the time."""
    return os.environ.get("CXX") or shutil.which("clang++") or "g++"


def tool(name: str) -> str:
    """A program of this environment, or else of the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise SystemExit(f"{name} is missing: run ci/setup.sh, and this with the Python of build/ci/venv")
    return found


def _trial(report: Mapping[str, Any], status: int, seconds: float, said: str) -> Trial:
    failed = [clause for clause in report["clauses"] if clause["outcome"] == "fail"]
    details = [case.get("detail", "") for clause in failed for case in clause["cases"] if case["outcome"] == "fail"]
    if status == 0:
        held = [clause["id"] for clause in report["clauses"] if clause["outcome"] in ("pass", "emulated")]
        return Trial(True, "", (), seconds, held=tuple(held))
    return Trial(
        False,
        "failed" if failed else "crash",
        tuple(clause["id"] for clause in failed),
        seconds,
        " ".join(details[0].split())[:300] if details else said,
    )


def _run_all_of(
    command: Sequence[str], environment: dict[str, str], cwd: str, timeout: float
) -> tuple[int | None, str]:
    """Exit status (None: timeout) and the end of the output. Nothing that it started is left behind."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end_group(process)
        output.seek(0)
        return status, " ".join(output.read()[-600:].decode(errors="replace").split())


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _copy_if_changed(source: Path, target: Path) -> None:
    text = source.read_bytes()
    if not target.exists() or target.read_bytes() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)


def _restore(kept: Path, target: Path) -> None:
    if not target.exists() or target.stat().st_mtime_ns != kept.stat().st_mtime_ns:
        target.unlink(missing_ok=True)  # a module that a process still has open stays whole for it
        shutil.copy2(kept, target)


def _say(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
