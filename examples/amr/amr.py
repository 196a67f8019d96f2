# SPDX-License-Identifier: MIT
"""An adaptive mesh, whose arrays grow and shrink every few steps, on a pool and on plain memory of the runtime.

    python examples/amr/amr.py [--backend host|cuda|hip] [--steps 200] [--cells 32] [--levels 4] [--svg FILE]
        [--json FILE]

The same simulation runs twice, on two resources, turn by turn. It says what each spent on memory: time in allocating
and freeing, calls to the runtime, the most that was reserved beside the most that was in use. It exits 0 only if both
end with the same bits, and if in every step the dye was what it has to be. FILE is a picture of memory over time.

CuPy computes where it is installed and has a device; the memory is plain device memory then. Elsewhere NumPy computes,
in managed memory, which host and device reach at one address.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from memory import Memory
from solver import Solver

FIRST_STEPS = 8  # that are not counted
RIGHT = 1e-12  # of the dye's amount, that rounding may take or add in one step


def array_library(pm: Any) -> Any:
    """CuPy if it computes on this backend's first device, else None."""
    if pm.backend == "host":
        return None
    try:
        cupy = importlib.import_module("cupy")
        right = bool(cupy.cuda.runtime.is_hip) == (pm.backend == "hip") and cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # not installed, no driver, another vendor's: then NumPy computes
        return None
    return cupy if right else None


class Run:
    """A simulation on one resource."""

    def __init__(self, name: str, pm: Any, on: Any, stream: Any, xp: Any, options: argparse.Namespace) -> None:
        resource, below = on
        self.name, self.resource, self.seconds = name, resource, 0.0
        self.memory = Memory(pm, resource, below, stream, on_device=xp is not None)
        self.solver = Solver(xp or np, self.memory, options.base, options.cells, options.levels)

    def step(self) -> None:
        begin = time.perf_counter()
        self.solver.step()
        self.seconds += time.perf_counter() - begin

    def figures(self) -> dict[str, Any]:
        memory, solver = self.memory, self.solver
        return {
            "name": self.name,
            "resource": f"{type(self.resource).__name__}, {self.resource.kind}",
            "allocations": memory.allocations,
            "seconds": memory.seconds,
            "seconds in all": self.seconds,
            "runtime calls": memory.runtime_calls(),
            "peak live": memory.peak,
            "peak reserved": max(reserved for *_, reserved in memory.series),
            "checksum": solver.checksum(),
            "worst error": solver.worst,
            "blocks": [solver.mesh.base**2, solver.most_blocks, len(solver.mesh.blocks)],
            "series": memory.series,
        }


def resources(pm: Any, stack: contextlib.ExitStack, on_device: bool) -> dict[str, tuple[Any, Any]]:
    """Plain memory of the runtime, and a pool over such memory with what counts its calls."""
    kind = pm.DeviceMemoryResource if on_device else pm.ManagedMemoryResource
    below = stack.enter_context(pm.StatisticsAdaptor(stack.enter_context(kind(0))))
    pool = stack.enter_context(pm.PoolMemoryResource(below))
    return {"plain": (stack.enter_context(kind(0)), None), "pool": (pool, below)}


def simulate(pm: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    cupy = array_library(pm)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(pm.Stream(0))
        if cupy is not None:
            stack.enter_context(cupy.cuda.ExternalStream(stream.handle))
        found = resources(pm, stack, cupy is not None)
        # What the array library does once, as it compiles its kernels, is no run's. A regrid comes within these steps.
        first = Run("first", pm, found["plain"], stream, cupy, options)
        for _ in range(FIRST_STEPS):
            first.step()
        first.solver.close()
        stream.synchronize()
        runs = [Run(name, pm, on, stream, cupy, options) for name, on in found.items()]
        for number in range(options.steps):
            for run in runs if number % 2 else reversed(runs):
                run.step()
        figures = [run.figures() for run in runs]
        for run in runs:
            run.solver.close()
        stream.synchronize()
    return figures


def faults(figures: list[dict[str, Any]]) -> list[str]:
    found = [
        f"{each['name']}: in one step {each['worst error']:.1e} of the dye came or went"
        for each in figures
        if not each["worst error"] <= RIGHT
    ]
    if len({each["checksum"] for each in figures}) != 1:
        found.append(f"the runs end with other bits: {', '.join(each['checksum'] for each in figures)}")
    return found


def show(figures: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", *(f"{each['name']}: {each['resource']}" for each in figures))
    rows = {
        "allocations": lambda f: f"{f['allocations']:,}",
        "time in allocating and freeing": lambda f: f"{f['seconds'] * 1e3:.1f} ms",
        "of the time in all": lambda f: f"{f['seconds'] / f['seconds in all']:.1%}",
        "for each allocation": lambda f: f"{f['seconds'] / f['allocations'] * 1e6:.2f} us",
        "calls to the runtime": lambda f: f"{f['runtime calls']:,}",
        "most in use": lambda f: f"{f['peak live'] / 2**20:.1f} MiB",
        "most reserved": lambda f: f"{f['peak reserved'] / 2**20:.1f} MiB",
        "reserved over use, at their most": lambda f: f"{f['peak reserved'] / f['peak live']:.2f}",
        "checksum": lambda f: f["checksum"],
        "worst error of the dye's amount": lambda f: f"{f['worst error']:.1e}",
    }
    for what, of in rows.items():
        table.add_row(what, *(of(each) for each in figures))
    Console(width=110).print(table)
    plain, pool = figures
    print(
        f"the pool took {pool['seconds'] / plain['seconds']:.2f} of plain memory's time, "
        f"and called the runtime {pool['runtime calls']:,} times in place of {plain['runtime calls']:,}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="host", choices=["host", "cuda", "hip"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--base", type=int, default=4, help="blocks along a side of the coarsest mesh")
    parser.add_argument("--cells", type=int, default=32, help="along a side of a block, even (default: %(default)s)")
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--svg", type=Path, help="draw memory over time")
    parser.add_argument("--json", type=Path, help="write all figures")
    options = parser.parse_args()
    if options.cells % 2 or min(options.steps, options.base, options.cells, options.levels) < 1:
        parser.error("steps, base, cells and levels are at least 1, and cells is even")

    pm = importlib.import_module(f"portamem.{options.backend}")
    figures = simulate(pm, options)
    blocks = figures[0]["blocks"]
    print(f"{pm.backend}: {pm.Device(0).name}; {options.steps} steps, {blocks[0]} to {blocks[1]} blocks")
    show(figures)
    if options.json:
        run = {"format": 1, "program": "examples/amr", "backend": pm.backend, "on": pm.Device(0).name}
        run |= {"steps": options.steps, "runs": figures}
        run["when"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        options.json.write_text(json.dumps(run), encoding="utf-8")
    if options.svg:
        import picture

        options.svg.write_text(picture.memory_over_time(figures), encoding="utf-8")
        print(f"memory over time: {options.svg}")
    for fault in (found := faults(figures)):
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
