"""C++ programs of the tests: the tools that build them, and CMake projects configured, built and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
Done = subprocess.CompletedProcess[str]


def tool(name: str) -> str:
    """A program on PATH. A skip where it is absent, unless PORTAMEM_TEST_TOOLS, a list of names, promises it."""
    if found := shutil.which(name):
        return found
    if name in os.environ.get("PORTAMEM_TEST_TOOLS", "").split():
        pytest.fail(f"PORTAMEM_TEST_TOOLS promises {name}, which is not on PATH")
    pytest.skip(f"no {name} here")


def run(*command: str | Path, **environment: str) -> Done:
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def output(*command: str | Path, **environment: str) -> str:
    """Standard output of a command that must exit 0."""
    done = run(*command, **environment)
    assert done.returncode == 0, f"{command[0]} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def configure(project: Path, build: Path, *options: str, compiler: str = "g++") -> Done:
    generator = ("-G", "Ninja") if shutil.which("ninja") else ()
    chosen = f"-DCMAKE_CXX_COMPILER={tool(compiler)}"
    return run(tool("cmake"), *generator, "-S", project, "-B", build, chosen, *options)


def build_project(project: Path, build: Path, *options: str, compiler: str = "g++") -> str:
    """Configures and builds, and returns what CMake said while configuring."""
    done = configure(project, build, *options, compiler=compiler)
    assert done.returncode == 0, done.stdout + done.stderr
    output(tool("cmake"), "--build", build, "--parallel", str(os.cpu_count()))
    return done.stdout


def write_project(folder: Path, text: str) -> Path:
    """A project that is configured only: `text` stands behind the two lines that every project begins with."""
    folder.mkdir()
    begin = "cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES CXX)\n"
    (folder / "CMakeLists.txt").write_text(begin + text, encoding="utf-8")
    return folder
