# SPDX-License-Identifier: MIT
"""Print what the order checker costs while it is off: calls of the host runtime, with it and with it compiled out.

    python benchmarks/order_off.py [--rounds 15]

Two libraries are built from the checkout in a temporary folder. In the second one the question whether the checker is
on is answered by "no" at compile time. ``benchmarks/cpp/rt_overhead.cpp`` runs over either by turns, in processes of
its own. It needs CMake, Ninja and g++.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("CMakeLists.txt", "csrc", "portamem", "pyproject.toml")
ASKED = "return __builtin_expect(detail::active.load(std::memory_order_relaxed), false);"
ROW = re.compile(r"^(\S.*?)\s{2,}[\d.]+\s+([\d.]+)\s", re.MULTILINE)
"""A call, and the nanoseconds that it took when it was made directly."""


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def library(folder: Path, *, compiled_out: bool) -> Path:
    """Builds libportamem for the host runtime alone; the folder that holds it."""
    tree, build = folder / "tree", folder / "build"
    tree.mkdir(parents=True)
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name)
        else:
            shutil.copy(ROOT / name, tree / name)
    if compiled_out:
        header = tree / "csrc" / "core" / "order" / "call.hpp"
        text = header.read_text(encoding="utf-8")
        if text.count(ASKED) != 1:
            sys.exit(f"{header.name} does not ask as it did: mend benchmarks/order_off.py")
        header.write_text(text.replace(ASKED, "return false;"), encoding="utf-8")
    options = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DPORTAMEM_BACKENDS=host")
    run("cmake", "-S", str(tree), "-B", str(build), *options)
    run("cmake", "--build", str(build))
    return next(build.rglob("libportamem.so")).parent


def program(folder: Path, own: Path) -> Path:
    made = folder / "rt_overhead"
    flags = ("-std=c++17", "-O2", "-DPORTAMEM_HOST", f"-I{ROOT / 'csrc' / 'include'}")
    run("g++", *flags, str(ROOT / "benchmarks" / "cpp" / "rt_overhead.cpp"), f"-L{own}", "-lportamem", "-o", str(made))
    return made


def nanoseconds(made: Path, own: Path) -> dict[str, float]:
    return {
        call: float(found) for call, found in ROW.findall(run(str(made), LD_LIBRARY_PATH=str(own))) if call != "call"
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        libraries = [library(folder / name, compiled_out=name == "without") for name in ("with", "without")]
        made = program(folder, libraries[0])
        rounds = []
        for turn in range(options.rounds):
            both = {own: nanoseconds(made, own) for own in (libraries if turn % 2 == 0 else libraries[::-1])}
            rounds.append([both[own] for own in libraries])
    print(f"{'call':28s} {'with, ns':>10s} {'without':>10s} {'ratio':>8s}   quartiles of the ratio")
    for call in rounds[0][0]:
        with_it, without = ([each[side][call] for each in rounds] for side in (0, 1))
        ratios = [a / b for a, b in zip(with_it, without, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"{call:28s} {statistics.median(with_it):10.1f} {statistics.median(without):10.1f} {middle:8.3f}   "
            f"{low:.3f} to {high:.3f}"
        )


if __name__ == "__main__":
    main()
