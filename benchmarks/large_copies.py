# SPDX-License-Identifier: MIT
"""Measure copies of large NumPy arrays to a device and back, beside pinned memory and the packages that people use, and
of every second row of an array, beside a copy that NumPy makes contiguous first.

    python benchmarks/large_copies.py [--backend cuda|hip] [--rounds 7] [--json FILE]

Everybody takes a turn in each round. A figure is GB/s by the median of the rounds; the ratio is to portamem's copy of
pinned memory. PORTAMEM_COPY_THREADS says how many threads carry portamem's copies; `off` leaves them to the vendor.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from python_calls import module_with_device

MIB = 1 << 20
ROW = 16 << 10  # bytes of a row of a strided array
SIZES = {"4 MiB": 4 * MIB, "32 MiB": 32 * MIB, "256 MiB": 256 * MIB, "1 GiB": 1024 * MIB}
Call = Callable[[], object]


def contenders(pm: Any, nbytes: int) -> dict[str, dict[str, Call]]:
    """What each does, by direction and name. Each call is done on return."""
    array, back = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    memory = pm.DeviceMemoryResource(0).allocate(nbytes)
    pinned = pm.PinnedMemoryResource(0).allocate(nbytes)
    pinned.fill(1)
    to_device: dict[str, Call] = {
        "pinned": lambda: memory.copy_from(pinned),
        "portamem": lambda: memory.copy_from(array),
    }
    to_host: dict[str, Call] = {"pinned": lambda: memory.copy_to(pinned), "portamem": lambda: memory.copy_to(back)}
    if cupy := module_with_device("cupy", lambda it: it.cuda.runtime.getDeviceCount() > 0):
        theirs = cupy.empty(nbytes, cupy.uint8)
        to_device["CuPy"] = lambda: (theirs.set(array), cupy.cuda.get_current_stream().synchronize())
        to_host["CuPy"] = lambda: theirs.get(out=back)
    if torch := module_with_device("torch", lambda it: it.cuda.is_available()):
        tensor = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        of_array, of_back = torch.from_numpy(array), torch.from_numpy(back)
        to_device["PyTorch"] = lambda: (tensor.copy_(of_array), torch.cuda.synchronize())
        to_host["PyTorch"] = lambda: (of_back.copy_(tensor), torch.cuda.synchronize())
    return {"to the device": to_device, "to the host": to_host}


def strided(pm: Any, nbytes: int) -> dict[str, dict[str, Call]]:
    """The same for every second row of an array of twice the bytes."""
    array = np.ones((2 * nbytes // ROW, ROW), np.uint8)
    rows = array[::2]
    memory = pm.DeviceMemoryResource(0).allocate(nbytes)
    pinned = pm.PinnedMemoryResource(0).allocate(nbytes)
    packed = np.empty(rows.shape, np.uint8)

    def fetch_and_spread() -> None:
        memory.copy_to(packed)
        rows[...] = packed

    return {
        "to the device": {
            "pinned": lambda: memory.copy_from(pinned),
            "portamem": lambda: memory.copy_from(rows),
            "np.ascontiguousarray and portamem": lambda: memory.copy_from(np.ascontiguousarray(rows)),
        },
        "to the host": {
            "pinned": lambda: memory.copy_to(pinned),
            "portamem": lambda: memory.copy_to(rows),
            "portamem and NumPy": fetch_and_spread,
        },
    }


def rates(takers: dict[str, Call], nbytes: int, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in takers}
    for _ in range(rounds + 1):
        for name, call in takers.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: nbytes / statistics.median(values[1:]) / 1e9 for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="cuda", choices=["host", "cuda", "hip"])
    parser.add_argument("--rounds", type=int, default=7, help="rounds per size (default: %(default)s)")
    parser.add_argument("--json", help="file that gets the figures too")
    options = parser.parse_args()
    pm = importlib.import_module(f"portamem.{options.backend}")
    print(f"{options.backend}: {pm.Device(0).name}, GB/s (ratio to pinned memory)")
    found: dict[str, dict[str, float]] = {}
    kinds = {"": contenders, "every second row, ": strided}
    for (size, nbytes), (kind, contenders_of) in product(SIZES.items(), kinds.items()):
        for direction, takers in contenders_of(pm, nbytes).items():
            measured = found[f"{kind}{size} {direction}"] = rates(takers, nbytes, options.rounds)
            beside = ", ".join(
                f"{name} {rate:.1f} ({rate / measured['pinned']:.2f})" for name, rate in measured.items()
            )
            print(f"{kind}{size} {direction}: {beside}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
