# SPDX-License-Identifier: MIT
"""Measure portamem beside its peers on an NVIDIA GPU, in one run, and print whether the project's targets hold.

    python benchmarks/peers.py [--backend cuda|host] [--rounds 11] [--repeats 3] [--plain PROGRAM]
        [--overhead TABLE]... [--json FILE]

* allocate and close, from Python, at three sizes: AsyncMemoryResource, cuda.bindings, CuPy's pools, PyTorch, RMM
* large pinned copies, both ways: portamem from Python, and PROGRAM (benchmarks/cpp/plain_copies.cpp), turn by turn
* a typed view handed to CuPy through DLPack, and CuPy's own array likewise
* TABLE: what benchmarks/cpp/rt_overhead.cpp printed

A package that is not here is left out. Everybody takes a turn in every round; a time is the median of rounds, and
everything is repeated: a ratio is the median of the repeats, with the lowest and the highest beside it. It judges no
time: it exits 0 unless something broke.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from python_calls import Call, calls_per_round, cuda_bindings, microseconds, module_with_device

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = {"256 B": 256, "1 MiB": MIB, "64 MiB": 64 * MIB}
COPIES = {"64 MiB": 64 * MIB, "1 GiB": GIB}
RT_TARGET_NS = 10.0

Times = dict[str, float]


class Target(NamedTuple):
    """A stated bound on a ratio: portamem's time by the peer's, or for copies its rate by the peer's."""

    peer: str
    bound: float
    at_most: bool = True

    def holds(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g} x {self.peer}"


class Case(NamedTuple):
    """One thing to do, by everybody who can."""

    what: str
    calls: dict[str, Call]
    target: Target | None = None
    rate_of: int = 0
    """Bytes that a call moves, where rates are what counts; else 0."""


class Plain:
    """The program that copies in plain C++: it waits while others measure."""

    def __init__(self, program: Path, most: int) -> None:
        self.process = subprocess.Popen(
            [str(program), str(most)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def microseconds(self, direction: str, nbytes: int, repeats: int) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{direction} {nbytes} {repeats}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.wait(60) != 0:
            raise RuntimeError("the plain program failed")


def bindings_pair(runtime: Any, nbytes: int) -> Call:
    """What a caller of cuda.bindings writes, with its pool told to keep what it has, as portamem's does."""
    stream = runtime.cudaStreamCreateWithFlags(1)[1]
    pool = runtime.cudaDeviceGetDefaultMemPool(0)[1]
    keep = importlib.import_module("cuda.bindings.driver").cuuint64_t(2**64 - 1)
    (answer,) = runtime.cudaMemPoolSetAttribute(pool, runtime.cudaMemPoolAttr.cudaMemPoolAttrReleaseThreshold, keep)
    if int(answer) != 0:
        raise RuntimeError(f"cuda.bindings cannot set its pool's threshold: {answer.name}")
    malloc, free = runtime.cudaMallocAsync, runtime.cudaFreeAsync
    return lambda: free(malloc(nbytes, stream)[1], stream)


def peers_of_allocation(nbytes: int) -> dict[str, Call]:
    found: dict[str, Call] = {}
    if runtime := cuda_bindings():
        found["cuda.bindings MallocAsync"] = bindings_pair(runtime, nbytes)
    if cupy := module_with_device("cupy", lambda m: m.cuda.runtime.getDeviceCount() > 0):
        found["cupy.cuda.alloc"] = lambda: cupy.cuda.alloc(nbytes)
        pool = cupy.cuda.MemoryAsyncPool()
        found["cupy MemoryAsyncPool"] = lambda: pool.malloc(nbytes)
    if torch := module_with_device("torch", lambda m: m.cuda.is_available()):
        found["torch.empty"] = lambda: torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    if rmm := module_with_device("rmm", lambda m: m.mr.get_current_device_resource() is not None):
        found["rmm.DeviceBuffer"] = lambda: rmm.DeviceBuffer(size=nbytes)
    return {name: call for name, call in found.items() if works(name, call)}


def works(name: str, call: Call) -> bool:
    """Whether a peer does here what it is to be measured at. One that does not is named and left out."""
    try:
        call()
    except Exception as error:
        print(f"left out: {name}: {error}", file=sys.stderr)
        return False
    return True


def allocations(pm: Any, stack: ExitStack) -> Iterator[Case]:
    stream, pool = stack.enter_context(pm.Stream(0)), stack.enter_context(pm.AsyncMemoryResource(0))

    def allocate_and_close(nbytes: int) -> Call:
        return lambda: pool.allocate(nbytes, stream=stream).close()

    for size, nbytes in SIZES.items():
        others = peers_of_allocation(nbytes) if pm.backend == "cuda" else {}
        target = Target("cuda.bindings MallocAsync", 1.0) if size == "1 MiB" else None
        yield Case(f"allocate and close {size}", {"portamem": allocate_and_close(nbytes), **others}, target)


def dlpack(pm: Any, stack: ExitStack) -> Iterator[Case]:
    cupy = module_with_device("cupy", lambda m: m.cuda.runtime.getDeviceCount() > 0)
    view = stack.enter_context(pm.zeros(MIB // 4, "float32"))
    if pm.backend != "cuda" or cupy is None or not hasattr(view, "__dlpack__"):
        return
    array = cupy.zeros(MIB // 4, dtype="float32")
    calls: dict[str, Call] = {"portamem": lambda: cupy.from_dlpack(view), "cupy": lambda: cupy.from_dlpack(array)}
    yield Case("cupy.from_dlpack", calls, Target("cupy", 1.0))


def measure(pm: Any, case: Case, rounds: int) -> Times:
    """Medians in microseconds. The device is idle, and each call warm, when a turn begins."""
    device = pm.Device(0)
    counts = {name: calls_per_round(call) for name, call in case.calls.items()}
    times: dict[str, list[float]] = {name: [] for name in case.calls}
    for number in range(rounds):
        names = list(case.calls)
        for name in names if number % 2 else reversed(names):
            device.synchronize()
            microseconds(case.calls[name], 3)
            times[name].append(microseconds(case.calls[name], counts[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def copy_rounds(pm: Any, plain: Plain | None, rounds: int) -> Iterator[tuple[Case, Times]]:
    """Copies of pinned memory in turns with the plain program."""
    most = max(COPIES.values()) if pm.backend == "cuda" else 64 * MIB
    with ExitStack() as stack:
        stream = stack.enter_context(pm.Stream(0))
        pinned, device = (stack.enter_context(kind(0)) for kind in (pm.PinnedMemoryResource, pm.DeviceMemoryResource))
        near, far = (stack.enter_context(resource.allocate(most)) for resource in (pinned, device))
        near.fill(1)
        for size, nbytes in COPIES.items():
            if nbytes > most:
                continue
            repeats = max(1, 256 * MIB // nbytes)
            here, there = near[:nbytes], far[:nbytes]
            for direction, to, origin in (("to", there, here), ("from", here, there)):

                def copy(to: Any = to, origin: Any = origin) -> None:
                    pm.copy(to, origin, stream=stream)
                    stream.synchronize()

                times: dict[str, list[float]] = {"portamem": [], **({"plain C++": []} if plain else {})}
                copy()
                for number in range(rounds):
                    for name in list(times) if number % 2 else list(reversed(times)):
                        if name == "portamem":
                            times[name].append(microseconds(copy, repeats))
                        elif plain is not None:
                            times[name].append(plain.microseconds(direction, nbytes, repeats))
                target = Target("plain C++", 0.97, at_most=False)
                what = f"pinned copy {direction} device, {size}"
                yield Case(what, {}, target, nbytes), {n: statistics.median(v) for n, v in times.items()}
            here.close()
            there.close()


def overhead(table: Path) -> Iterator[dict[str, Any]]:
    """The rows of rt_overhead.cpp's table: nanoseconds through rt and directly."""
    lines = table.read_text(encoding="utf-8").splitlines()
    for line in lines[2:]:
        what, through, direct, difference, ratio = (part.strip() for part in line.rsplit(maxsplit=4))
        holds = float(difference) <= RT_TARGET_NS
        yield {
            "what": f"rt {what}, {lines[0].split(',')[0]}",
            "unit": "ns",
            "values": {"portamem": float(through), "the vendor's call": float(direct)},
            "ratio": {"the vendor's call": [float(ratio)] * 3},
            "target": f"one vendor call: at most {RT_TARGET_NS:g} ns more",
            "holds": holds,
        }


def row_of(case: Case, repeats: list[Times]) -> dict[str, Any]:
    """Medians over the repeats, and ratios as median, lowest and highest."""
    middle = {name: statistics.median(times[name] for times in repeats) for name in repeats[0]}
    row: dict[str, Any] = {"what": case.what, "unit": "us", "values": {n: round(v, 3) for n, v in middle.items()}}
    row["ratio"] = {}
    for name in middle:
        if name != "portamem":
            each = [t["portamem"] / t[name] if not case.rate_of else t[name] / t["portamem"] for t in repeats]
            row["ratio"][name] = [round(v, 3) for v in (statistics.median(each), min(each), max(each))]
    if case.rate_of:
        row["unit"] = "GB/s"
        row["values"] = {name: round(case.rate_of / value / 1e3, 2) for name, value in middle.items()}
    if case.target is not None and case.target.peer in row["ratio"]:
        row["target"] = str(case.target)
        row["holds"] = case.target.holds(row["ratio"][case.target.peer][0])
    return row


def measured(pm: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    from rich.progress import track

    cases: dict[str, Case] = {}
    repeats: dict[str, list[Times]] = {}
    with ExitStack() as stack:
        plain = stack.enter_context(closing(Plain(options.plain, max(COPIES.values())))) if options.plain else None
        calls = [*allocations(pm, stack), *dlpack(pm, stack)]
        for _ in track(range(options.repeats), description="measuring", transient=True):
            for case in calls:
                cases[case.what] = case
                repeats.setdefault(case.what, []).append(measure(pm, case, options.rounds))
            for case, times in copy_rounds(pm, plain, options.rounds):
                cases[case.what] = case
                repeats.setdefault(case.what, []).append(times)
    return [row_of(case, repeats[what]) for what, case in cases.items()]


def show(rows: list[dict[str, Any]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "portamem", "peer", "ratio (lowest to highest)", "target", title=title)
    for row in rows:
        own, peers = row["values"]["portamem"], [name for name in row["values"] if name != "portamem"]
        target = f"{row['target']}: {'holds' if row['holds'] else 'MISSED'}" if "target" in row else ""
        table.add_row(
            row["what"],
            f"{own:g} {row['unit']}",
            "\n".join(f"{name} {row['values'][name]:g}" for name in peers),
            "\n".join("{:.3f} ({:.3f} to {:.3f})".format(*row["ratio"][name]) for name in peers),
            target,
        )
    Console(width=140).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="cuda", choices=["cuda", "host"])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plain", type=Path, help="the compiled benchmarks/cpp/plain_copies.cpp")
    parser.add_argument("--overhead", type=Path, action="append", default=[], help="what rt_overhead printed")
    parser.add_argument("--json", type=Path, help="write the rows as a part of a report of tools/report.py")
    options = parser.parse_args()

    pm = importlib.import_module(f"portamem.{options.backend}")
    rows = measured(pm, options) + [row for table in options.overhead for row in overhead(table)]
    show(rows, f"{options.backend}: {pm.Device(0).name}; ratios: portamem by the peer, for copies rate by rate")
    if options.json:
        ran = {"what": "benchmarks ran", "backend": options.backend, "result": "passed"}
        options.json.write_text(json.dumps({"rows": [ran], "bench": rows}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
