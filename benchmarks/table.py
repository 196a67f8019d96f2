# SPDX-License-Identifier: MIT
"""Fill the speed table: every row of benchmarks/bounds.py, portamem and its peers in turns.

    python benchmarks/table.py [--backend host|cuda|hip] [--rounds 11] [--program FILE] [--json FILE]

The Python rows run here; the C++ rows are benchmarks/cpp/table, which is built against the installed portamem first
(CMake and a C++17 compiler), unless the program is given. Who is measured beside portamem is who is installed: NumPy,
CuPy, RMM, PyTorch; in C++ RMM, PyTorch, and Umpire where CMake finds its package, whose folder $umpire_DIR may name; on
host the C library's malloc and the C++ library's pool.

A figure is the median of rounds in which everybody takes a turn. The table says whether each bound holds; no exit code
does. It exits 0 unless something broke. benchmarks/page.py makes evidence/performance.md of FILE.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bounds import BLOCKS, LARGER, OWN, ROWS
from other_work import OtherWork
from python_calls import module_with_device

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "benchmarks" / "cpp" / "table"
SIZES = {"256 B": 256, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
LARGEST_OF_NUMPY = 1 << 20  # above, it maps pages that nobody has touched: no yardstick

Measured = dict[str, dict[str, list[float]]]
"""The values of all rounds, by row and by who was measured."""

Statements = dict[str, tuple[str, dict[str, Any]]]
"""What each contender's user writes, with its names."""


def pool_of(pm: Any, stack: ExitStack) -> Any:
    """The pool that is measured: default-constructed, over plain device memory."""
    return stack.enter_context(pm.PoolMemoryResource(stack.enter_context(pm.DeviceMemoryResource(0))))


def rmm_calls(nbytes: int) -> Statements:
    rmm = module_with_device("rmm", lambda m: m.mr.get_current_device_resource() is not None)
    if not rmm:
        return {}
    stream = importlib.import_module("rmm.pylibrmm.stream").Stream()
    found = {}
    for name, make in (
        ("RMM arena", lambda: rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), arena_size=4 << 30)),
        ("RMM pool", lambda: rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30)),
        ("RMM async", lambda: rmm.mr.CudaAsyncMemoryResource()),
    ):
        variables = {"make": rmm.DeviceBuffer, "n": nbytes, "s": stream, "r": make()}
        found[name] = ("make(size=n, stream=s, mr=r)", variables)
    return found


def calls(pm: Any, pool: Any, stream: Any, nbytes: int) -> Statements:
    """What everybody writes to get memory that goes back at once, with its names."""
    import numpy as np

    found: Statements = {OWN: ("allocate(n, stream=s)", {"allocate": pool.allocate, "n": nbytes, "s": stream})}
    if nbytes <= LARGEST_OF_NUMPY:
        found["np.empty"] = ("empty(n, u)", {"empty": np.empty, "n": nbytes, "u": np.uint8})
    if pm.backend == "host":
        return found
    if cupy := module_with_device("cupy", lambda m: m.cuda.runtime.getDeviceCount() > 0):
        found["cupy.cuda.alloc"] = ("alloc(n)", {"alloc": cupy.cuda.alloc, "n": nbytes})
    if torch := module_with_device("torch", lambda m: m.cuda.is_available()):
        variables = {"empty": torch.empty, "n": nbytes, "u": torch.uint8, "d": torch.device("cuda", 0)}
        found["torch.empty"] = ("empty(n, dtype=u, device=d)", variables)
    if pm.backend == "cuda":
        found |= rmm_calls(nbytes)
    return found


def typed_rows(pm: Any, stream: Any, stack: ExitStack) -> dict[str, Statements]:
    """Typed memory made, copied and handed over, as programs do it through the plain functions."""
    import numpy as np

    elements, array = 1 << 20, np.ones(4096, np.uint8)
    view = stack.enter_context(pm.empty(4096, "uint8"))
    on_stream = stack.enter_context(pm.empty(4096, "uint8", stream=stream))
    np_empty = ("empty(n, u)", {"empty": np.empty, "n": elements, "u": np.uint8})
    names = {"empty": pm.empty, "n": elements, "s": stream}
    rows: dict[str, Statements] = {
        "typed, on a stream": {OWN: ("empty(n, 'uint8', stream=s)", names), "np.empty": np_empty},
        "typed": {OWN: ("empty(n, 'uint8')", names), "np.empty": np_empty},
        "copy in, queued": {OWN: ("copy(a, stream=s)", {"copy": on_stream.copy_from, "a": array, "s": stream})},
        "copy in": {OWN: ("copy(a)", {"copy": view.copy_from, "a": array})},
        "copy out": {OWN: ("copy(a)", {"copy": view.copy_to, "a": array})},
    }
    if cupy := pm.backend == "cuda" and module_with_device("cupy", lambda m: m.cuda.runtime.getDeviceCount() > 0):
        theirs = cupy.empty(4096, cupy.uint8)
        for row in ("typed, on a stream", "typed"):
            rows[row]["cupy.empty"] = ("empty(n, u)", {"empty": cupy.empty, "n": elements, "u": cupy.uint8})
        wait = cupy.cuda.get_current_stream().synchronize
        rows["copy in, queued"]["cupy.ndarray.set"] = ("set(a)", {"set": theirs.set, "a": array})
        rows["copy in"]["cupy.ndarray.set and a wait"] = (
            "set(a); wait()",
            {"set": theirs.set, "a": array, "wait": wait},
        )
        rows["copy out"]["cupy.ndarray.get"] = ("get(out=a)", {"get": theirs.get, "a": array})
    if torch := module_with_device("torch", lambda m: True):
        near = stack.enter_context(pm.empty(4096, "uint8", resource=stack.enter_context(pm.PinnedMemoryResource(0))))
        names = {"view": near, "tensor": torch.zeros(1024), "torch": torch, "pm": pm}
        rows["to_torch"] = {OWN: ("view.to_torch()", names)}
        if pm.backend == "host":  # PyTorch by itself takes no page-locked memory of the vendors
            rows["to_torch"]["torch.from_dlpack"] = ("torch.from_dlpack(view)", names)
        rows["from_dlpack"] = {
            OWN: ("pm.from_dlpack(tensor)", names),
            "torch.from_dlpack of it": ("torch.from_dlpack(tensor)", names),
        }
    return rows


FEW = 32
"""Copies that a stream takes without delay: once more are queued, a call waits for the device's pace."""


def timed_queueing(timer: timeit.Timer, settle: Callable[[], None]) -> float:
    """Nanoseconds of a call that queues work, each time on streams that hold none."""
    found = []
    for _ in range(31):
        settle()
        found.append(timer.timeit(FEW) / FEW * 1e9)
    settle()
    return statistics.median(found)


def timed(
    row: str, statements: Statements, rounds: int, settle: Callable[[], None] | None = None
) -> dict[str, list[float]]:
    """Nanoseconds of each contender in each round, by turns; one that fails is left out. ``settle`` waits for the work
    that calls have queued."""
    timers = {}
    for who, (statement, variables) in statements.items():
        timer = timeit.Timer(statement, globals=variables)
        try:
            once = min(timer.repeat(3, 100)) / 100
        except Exception as error:
            print(f"left out: {who}, {row}: {error}", file=sys.stderr)
            continue
        timers[who] = (timer, max(10, int(4e-3 / once)))
    found: dict[str, list[float]] = {who: [] for who in timers}
    for number in range(rounds):
        for who in list(timers) if number % 2 else reversed(timers):
            timer, count = timers[who]
            if settle:
                found[who].append(timed_queueing(timer, settle))
            else:
                found[who].append(timer.timeit(count) / count * 1e9)
    return found


def python_rows(pm: Any, rounds: int) -> Measured:
    found: Measured = {}
    with ExitStack() as stack:
        stream = stack.enter_context(pm.Stream(0))
        pool = pool_of(pm, stack)
        for size, nbytes in SIZES.items():
            found[f"python {size}"] = timed(f"python {size}", calls(pm, pool, stream, nbytes), rounds)
        for row, statements in typed_rows(pm, stream, stack).items():
            settle = pm.Device(0).synchronize if row == "copy in, queued" else None
            found[row] = timed(row, statements, rounds, settle)
        pm.Device(0).synchronize()
    return found


def found_folder(name: str, *below: str) -> str:
    """A folder of an installed package, or nothing where it is not installed."""
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return str(Path(places[0], *below)) if places else ""


def built(backend: str, folder: Path) -> Path:
    """Builds the C++ rows."""
    import portamem

    options = {
        "TABLE_BACKEND": backend,
        "portamem_DIR": portamem.get_cmake_dir(),
        "librmm_ROOT": found_folder("librmm") if backend == "cuda" else "",
        "Torch_DIR": found_folder("torch", "share", "cmake", "Torch") if backend == "cuda" else "",
    }
    if backend == "hip":  # how ci/build.sh is told where HIP is
        names = ("PORTAMEM_HIP_PLATFORM", "PORTAMEM_HIP_INCLUDE", "PORTAMEM_HIP_CUDA_ROOT")
        options |= {name: os.environ.get(name, "") for name in names}
    configure = ["cmake", "-S", str(SOURCES), "-B", str(folder), *(f"-D{k}={v}" for k, v in options.items() if v)]
    said = ran(configure)
    print("\n".join(line for line in said.splitlines() if "table: with" in line))
    ran(["cmake", "--build", str(folder)])
    return folder / f"portamem_table_{backend}"


def ran(command: list[str]) -> str:
    """What a program printed. One that fails ends this one, with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def cpp_lines(program: Path, rounds: int) -> Iterator[dict[str, Any]]:
    memory = [(blocks, 256) for blocks in BLOCKS] + [(BLOCKS[0], nbytes) for nbytes in LARGER]
    commands = [[str(program), str(rounds)], *([str(program), "memory", str(n), str(size)] for n, size in memory)]
    for command in commands:
        for line in ran(command).splitlines():
            yield json.loads(line)


def cpp_rows(program: Path, rounds: int) -> tuple[Measured, dict[str, str]]:
    found: Measured = {}
    units: dict[str, str] = {}
    for line in cpp_lines(program, rounds):
        who = line["who"]
        if "failed" in line:
            print(f"left out: {who}, {line['row']}: {line['failed']}", file=sys.stderr)
            continue
        units[line["row"]] = line["unit"]
        if any(line["values"]) or not line["unit"]:  # no time and no size is 0; what is or is not has no unit
            found.setdefault(line["row"], {})[who] = line["values"]
    return found, units


def report(measured: Measured, units: dict[str, str], backend: str) -> list[dict[str, Any]]:
    """The rows with their figures (median, lowest, highest) and their bounds."""
    middle = {row: {who: statistics.median(v) for who, v in by.items()} for row, by in measured.items()}
    found = []
    for row in ROWS:
        values = measured.get(row.key, {})
        found.append(
            {
                "key": row.key,
                "what": row.what,
                "unit": units.get(row.key, "ns"),
                "values": {who: [rounded(f(v)) for f in (statistics.median, min, max)] for who, v in values.items()},
                "bounds": [rounded_numbers(bound.judged(middle, backend)) for bound in row.bounds],
            }
        )
    return found


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


def rounded_numbers(judged: dict[str, Any]) -> dict[str, Any]:
    return {key: rounded(value) if isinstance(value, float) else value for key, value in judged.items()}


def cpu() -> str:
    """The processor's name, as the system gives it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "an unnamed processor"


def about(backend: str) -> dict[str, Any]:
    """What it ran on, as reports of ci/ say it."""
    import datetime

    sys.path.insert(0, str(ROOT / "tools"))
    ci: Any = importlib.import_module("report")
    machine = ci.machine()
    return {
        "backend": backend,
        "on": ci.described(backend, machine),
        "cpu": f"{machine['cpus']} of {cpu()}",
        "python": machine["python"],
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "commit": ci.commit(),
    }


def in_words(bound: dict[str, Any], say_missing: Callable[[str], str]) -> str:
    """A bound with its ratio, and whether it holds."""
    if "aside" in bound:
        return f"{bound['text']}: {bound['ratio']:.3g}; no bound, {bound['aside']}"
    if bound["holds"] is None:
        predicted = f"; predicted {bound['predicted']:g} from {bound['from']}" if "predicted" in bound else ""
        return f"{bound['text']}: {say_missing(bound['missing'])}{predicted}"
    return f"{bound['text']}: {bound['ratio']:.3g}, {'holds' if bound['holds'] else 'MISSED'}"


def show(run: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("work", "portamem", "beside it", "bounds", title=f"{run['backend']}: {run['on']}, {run['cpu']}")
    for row in run["rows"]:
        own = row["values"].get(OWN)
        others = (f"{who} {values[0]:g}" for who, values in row["values"].items() if who != OWN)
        bounds = (in_words(bound, lambda who: f"{who} not measured") for bound in row["bounds"])
        mine = f"{own[0]:g} {row['unit']}" if own else "not measured"
        table.add_row(row["what"], mine, "\n".join(others), "\n".join(bounds))
    Console(width=150).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="host", choices=["host", "cuda", "hip"])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--program", type=Path, help="the compiled benchmarks/cpp/table, instead of building it")
    parser.add_argument("--json", type=Path, help="write the run, for benchmarks/page.py")
    options = parser.parse_args()

    pm = importlib.import_module(f"portamem.{options.backend}")
    others = OtherWork()
    measured = python_rows(pm, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        program = options.program or built(options.backend, Path(folder))
        cpp, units = cpp_rows(program, options.rounds)
    run = {"format": 1, **about(options.backend), "other_work": others.processors(), "rounds": options.rounds}
    run["rows"] = report(measured | cpp, units, options.backend)
    show(run)
    if options.json:
        options.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
