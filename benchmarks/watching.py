# SPDX-License-Identifier: MIT
"""Print what watching costs: a pair of allocate and deallocate on a pool, under each adaptor and under the variables.

    python benchmarks/watching.py [--rounds 15] [--threads 4]

``benchmarks/cpp/watching.cpp`` is compiled against the portamem that is installed, for the host runtime. Each round is
a process that takes its turns on the pool and on the adaptors, and one for each variable. It needs g++.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import portamem

SOURCE = Path(__file__).resolve().parent / "cpp" / "watching.cpp"
ALONE = "nothing"
VARIABLES = {"PORTAMEM_STATS": "exit", "PORTAMEM_LOG": "run.jsonl"}


def run(*command: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def program(folder: Path) -> Path:
    made, include = folder / "watching", portamem.get_include()
    library = str(Path(portamem.__file__).parent)
    flags = ("-std=c++17", "-O2", "-pthread", "-DPORTAMEM_HOST", f"-I{include}")
    linked = (f"-L{library}", "-lportamem", f"-Wl,-rpath,{library}")
    run("g++", *flags, str(SOURCE), *linked, "-o", str(made), folder=folder)
    return made


def round_of(made: Path, threads: int, folder: Path) -> dict[str, float]:
    """Nanoseconds of a pair, by what watches it."""

    def pairs(*log: str, **environment: str) -> dict[str, float]:
        lines = run(str(made), str(threads), *log, folder=folder, **environment).splitlines()
        return {name: float(value) for name, _, value in (line.partition(" ") for line in lines)}

    return pairs("own.jsonl") | {name: pairs(**{name: value})[ALONE] for name, value in VARIABLES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = program(folder)
        rounds = [(round_of(made, 1, folder), round_of(made, options.threads, folder)) for _ in range(options.rounds)]
    print(f"{'what watches':20s} {'ns a pair':>10s} {'ratio':>8s}   {'quartiles':18s} {options.threads} threads by one")
    for name in rounds[0][0]:
        ratios = [alone[name] / alone[ALONE] for alone, _ in rounds]
        rates = [alone[name] / together[name] for alone, together in rounds]
        low, middle, high = statistics.quantiles(ratios, n=4)
        took = statistics.median(alone[name] for alone, _ in rounds)
        quartiles = f"{low:.2f} to {high:.2f}"
        print(f"{name:20s} {took:10.1f} {middle:8.2f}   {quartiles:18s} {statistics.median(rates):.2f}")


if __name__ == "__main__":
    main()
