# SPDX-License-Identifier: MIT
"""Print what the order checker costs while it is off: calls of the host runtime, with it and with it compiled out.

    python benchmarks/order_off.py [--rounds 15]

Two libraries are built from the checkout in a temporary folder. In the second one the question whether the checker is
on is answered by "no" at compile time. ``benchmarks/cpp/rt_overhead.cpp`` runs over either by turns, in processes of
its own, and in each round over the first one once more: what two runs of one and the same library differ by is what
cannot be told from nothing. It needs CMake, Ninja and g++.
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


def ratio(ones: list[float], others: list[float]) -> str:
    """The middle one of the rounds' ratios, and their quartiles."""
    low, middle, high = statistics.quantiles((a / b for a, b in zip(ones, others, strict=True)), n=4)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


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
            turns = [*libraries, libraries[0]]
            order = (turn % 3, (turn + 1) % 3, (turn + 2) % 3)
            found = {which: nanoseconds(made, turns[which]) for which in order}
            rounds.append([found[which] for which in range(3)])
    print(f"{'call':28s} {'with, ns':>9s} {'without':>9s}   {'with by without':24s} with by itself")
    for call in rounds[0][0]:
        with_it, without, again = ([each[which][call] for each in rounds] for which in range(3))
        medians = f"{statistics.median(with_it):9.1f} {statistics.median(without):9.1f}"
        print(f"{call:28s} {medians}   {ratio(with_it, without):24s} {ratio(with_it, again)}")


if __name__ == "__main__":
    main()
