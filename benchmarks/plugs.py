# SPDX-License-Identifier: MIT
"""Measure libraries that take their memory from portamem against the same libraries with their own allocators.

    python benchmarks/plugs.py [--rounds 5] [--json FILE] [LIBRARY]...

LIBRARY is torch or cupy; those that are here and see a GPU are measured. A library takes an allocator once in a
process, so each contender of each round is a process of its own, in turns. A figure is the median of the rounds, and
the ratio that of the medians. Bounds are printed beside the ratios; no exit code says whether they hold.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

MIB = 1 << 20
CONTENDERS = {"torch": ("own", "allocator", "MemPool"), "cupy": ("own", "allocator")}
BOUNDS = {  # by row and contender: the most that the ratio to the library's own may be
    ("torch.empty, 1 MiB", "allocator"): 0.9,
    ("ResNet training step", "allocator"): 1.0,
    ("ResNet training step", "MemPool"): 1.0,
    ("transformer training step", "allocator"): 1.0,
    ("transformer training step", "MemPool"): 1.0,
    ("memory in use after training", "allocator"): 1.05,
    ("memory in use after training", "MemPool"): 1.05,
    ("16 threads of torch.empty", "allocator"): 1 / 3,
    ("cupy.empty, 1 MiB", "allocator"): 0.8,
    ("100 elementwise operations", "allocator"): 1.0,
    ("16 threads of cupy.empty", "allocator"): 1 / 3,
}


def best_of(turns: int, repeats: int, function: Callable[[], object]) -> float:
    """Nanoseconds of one call: the least of some turns of many calls."""
    best = float("inf")
    for _ in range(turns):
        start = time.perf_counter_ns()
        for _ in range(repeats):
            function()
        best = min(best, (time.perf_counter_ns() - start) / repeats)
    return best


def threads_of(count: int, work: Callable[[], object]) -> float:
    """Nanoseconds that some threads take together."""
    threads = [Thread(target=work) for _ in range(count)]
    start = time.perf_counter_ns()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return float(time.perf_counter_ns() - start)


def pool_of(backend: Any) -> Any:
    return backend.PoolMemoryResource(backend.DeviceMemoryResource(), host_access=False)


def measure_torch(contender: str) -> dict[str, float]:
    import torch

    import portamem
    from portamem.plugins import torch as plug

    backend = portamem.hip if torch.version.hip else portamem.cuda
    if contender == "allocator":
        plug.replace_allocator(pool_of(backend))
    elif contender == "MemPool":
        plug.use(pool_of(backend))
    found: dict[str, float] = {}
    empty = torch.empty
    found["torch.empty, 1 MiB"] = best_of(7, 20000, lambda: empty(MIB, dtype=torch.uint8, device="cuda"))

    def on_a_stream() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3000):
                empty(MIB, dtype=torch.uint8, device="cuda")

    if contender != "MemPool":  # a block is the thread's that began it
        found["16 threads of torch.empty"] = min(threads_of(16, on_a_stream) for _ in range(3))
    before = backend.Device(0).memory_info().free
    found["ResNet training step"] = training(torch, *resnet(torch))
    found["transformer training step"] = training(torch, *transformer(torch))
    found["memory in use after training"] = float(max(before - backend.Device(0).memory_info().free, MIB))
    return found


def resnet(torch: Any) -> tuple[Any, Callable[[], Any]]:
    """Eight residual blocks of 3 x 3 convolutions, and images of 64 x 64."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
            self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

        def forward(self, x: Any) -> Any:
            return (self.second(self.first(x)) + x).relu()

    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3), *[Block(64) for _ in range(8)], nn.AdaptiveAvgPool2d(1)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10)).cuda()
    return net, lambda: torch.randn(32, 3, 64, 64, device="cuda")


def transformer(torch: Any) -> tuple[Any, Callable[[], Any]]:
    """Four encoder layers of 256 numbers, and sequences of 128."""
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    net = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 4), torch.nn.Linear(256, 10)).cuda()
    return net, lambda: torch.randn(16, 128, 256, device="cuda")


def training(torch: Any, net: Any, make: Callable[[], Any]) -> float:
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        loss = net(make()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(5):
        start = time.perf_counter_ns()
        for _ in range(20):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter_ns() - start) / 20)
    return min(times)


def measure_cupy(contender: str) -> dict[str, float]:
    import cupy

    import portamem
    from portamem.plugins import cupy as plug

    backend = portamem.hip if cupy.cuda.runtime.is_hip else portamem.cuda
    if contender == "allocator":
        plug.use(pool_of(backend))
    empty = cupy.empty
    found = {"cupy.empty, 1 MiB": best_of(7, 20000, lambda: empty(MIB, "u1"))}
    x = cupy.ones(1 << 16, "f4")

    def chain() -> None:
        y = x
        for _ in range(50):
            y = y + x
            y = y * x
        cupy.cuda.runtime.deviceSynchronize()

    found["100 elementwise operations"] = best_of(7, 20, chain)

    def on_a_stream() -> None:
        with cupy.cuda.Stream(non_blocking=True):
            for _ in range(3000):
                empty(MIB, "u1")

    found["16 threads of cupy.empty"] = min(threads_of(16, on_a_stream) for _ in range(3))
    return found


def is_here(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def child(library: str, contender: str) -> dict[str, float]:
    """The figures of one contender, of a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--contender", contender, library], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{library}, {contender}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="torch, cupy (default: both, where they are)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the figures of all rounds here")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contender:
        print(json.dumps({"torch": measure_torch, "cupy": measure_cupy}[given.libraries[0]](given.contender)))
        return
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for library in given.libraries or [name for name in CONTENDERS if is_here(name)]:
        rows = found.setdefault(library, {})
        for _ in range(given.rounds):
            for contender in CONTENDERS[library]:
                for row, value in child(library, contender).items():
                    rows.setdefault(row, {}).setdefault(contender, []).append(value)
        for row, values in rows.items():
            own = statistics.median(values["own"])
            print(f"{library:6} {row:30} own {own:14.0f}")
            for contender, all_values in values.items():
                if contender != "own":
                    bound = BOUNDS.get((row, contender))
                    ratio = statistics.median(all_values) / own
                    beside = "" if bound is None else f"   at most {bound:.2f}"
                    print(f"{'':6} {'':30} {contender:10} {ratio:8.2f} x{beside}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
