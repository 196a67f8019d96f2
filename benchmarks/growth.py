# SPDX-License-Identifier: MIT
"""Measure growth of device memory at its address, beside new memory with a copy, and PyTorch's resize.

    python benchmarks/growth.py [--backend cuda|hip|host] [--start 4096] [--steps 1000] [--rounds 5] [--json FILE]

First one growth, to twice `--start` MiB: milliseconds, and the peak of device memory divided by the final size.
Everybody takes a turn in each round, and a figure is the median. Then `--steps` of 16 MiB, one after the other: the
first, median and worst step, and the mean of the last hundred divided by that of the first hundred, which is 1 where
the whole is linear. Other programs on the device would blur the peak.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from python_calls import module_with_device

MIB = 1 << 20
STEP = 16 * MIB


class Peak:
    """The most bytes that the device has lost since the block began. A thread asks all the time."""

    def __init__(self, device: Any) -> None:
        self._device, self._stop, self.nbytes = device, threading.Event(), 0
        self._before = device.memory_info().free
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.nbytes = max(self.nbytes, self._before - self._device.memory_info().free)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.nbytes = max(self.nbytes, self._before - self._device.memory_info().free)


def by_mapping(pm: Any, start: int, stack: ExitStack) -> Callable[[int], None]:
    resource = stack.enter_context(pm.VirtualMemoryResource(0))
    buffer = stack.enter_context(resource.allocate_growable(start))
    buffer.fill(1)
    return lambda nbytes: buffer.resize(nbytes)


def by_copy(pm: Any, start: int, stack: ExitStack) -> Callable[[int], None]:
    buffer = stack.enter_context(stack.enter_context(pm.DeviceMemoryResource(0)).allocate(start))
    buffer.fill(1)
    return lambda nbytes: buffer.reallocate(nbytes)


def by_torch(torch: Any, start: int, stack: ExitStack) -> Callable[[int], None]:
    tensor = torch.ones(start, dtype=torch.uint8, device="cuda")
    stack.callback(torch.cuda.empty_cache)
    stack.callback(lambda: tensor.set_())  # its memory goes back

    def grow(nbytes: int) -> None:
        tensor.resize_(nbytes)
        torch.cuda.synchronize()

    return grow


def once(make: Callable[[int, ExitStack], Callable[[int], None]], start: int, device: Any) -> tuple[float, float]:
    """Milliseconds of one growth to twice the size, and its peak divided by the final size."""
    with ExitStack() as stack:
        grow = make(start, stack)
        device.synchronize()
        begin = time.perf_counter()
        grow(2 * start)
        taken = time.perf_counter() - begin
    with Peak(device) as peak, ExitStack() as stack:
        make(start, stack)(2 * start)
    return taken * 1e3, peak.nbytes / (2 * start)


def steps(make: Callable[[int, ExitStack], Callable[[int], None]], count: int) -> list[float]:
    """Milliseconds of each step of 16 MiB."""
    times: list[float] = []
    with ExitStack() as stack:
        grow = make(STEP, stack)
        for number in range(2, count + 2):
            begin = time.perf_counter()
            grow(number * STEP)
            times.append((time.perf_counter() - begin) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="cuda", choices=["host", "cuda", "hip"])
    parser.add_argument("--start", type=int, default=4096, help="MiB before the one growth (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="steps of 16 MiB (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the one growth (default: %(default)s)")
    parser.add_argument("--json", help="file that gets the figures too")
    options = parser.parse_args()
    pm = importlib.import_module(f"portamem.{options.backend}")
    device = pm.Device(0)
    takers: dict[str, Callable[[int, ExitStack], Callable[[int], None]]] = {
        "mapping": lambda start, stack: by_mapping(pm, start, stack),
        "new memory and a copy": lambda start, stack: by_copy(pm, start, stack),
    }
    if torch := module_with_device("torch", lambda it: it.cuda.is_available()):
        takers["PyTorch"] = lambda start, stack: by_torch(torch, start, stack)
    found: dict[str, Any] = {}
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in takers}
    for _ in range(options.rounds):
        for name, make in takers.items():
            measured[name].append(once(make, options.start * MIB, device))
    print(f"{options.backend}: {device.name}, {options.start} MiB to twice that")
    for name, rounds in measured.items():
        taken, peak = (statistics.median(column) for column in zip(*rounds, strict=True))
        found[name] = {"ms": taken, "peak": peak}
        print(f"  {name}: {taken:.3f} ms, peak {peak:.2f} of the final size", flush=True)
    found["ratio"] = found["mapping"]["ms"] / found["new memory and a copy"]["ms"]
    print(f"  mapping / new memory and a copy: {found['ratio']:.3f}")
    every = steps(takers["mapping"], options.steps)
    part = max(1, min(100, len(every) // 2))
    found["steps"] = {
        "first": every[0],
        "median": statistics.median(every),
        "worst": max(every),
        "last_by_first": statistics.fmean(every[-part:]) / statistics.fmean(every[:part]),
    }
    told = ", ".join(f"{name} {value:.3f}" for name, value in found["steps"].items())
    print(f"{options.steps} steps of 16 MiB by mapping, ms: {told}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
