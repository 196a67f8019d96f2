# SPDX-License-Identifier: MIT
"""Measure the way from a file to device memory, beside `np.fromfile` with a copy, and CuPy's and PyTorch's own ways.

    python benchmarks/files.py [--backend cuda|hip|host] [--mib 4096] [--rounds 3] [--folder DIR] [--json FILE]

The file is in the page cache. Everybody takes a turn in each round; a figure is GB/s by the median of the rounds, and
the ratio is to `np.fromfile` with portamem's own copy. Last, the most memory that the process took of the host while
`Buffer.load` ran, beyond what it had.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from python_calls import module_with_device

MIB = 1 << 20
Call = Callable[[], object]


def resident() -> int:
    """Bytes of the host's memory that the process has, without pages of files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return (int(fields["RssAnon"].split()[0]) + int(fields["RssShmem"].split()[0])) << 10


def growth_of_host_memory(call: Call) -> int:
    """The most bytes beyond what the process had, while a call ran."""
    stop, before, most = threading.Event(), resident(), 0

    def watch() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, resident() - before)
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        call()
    finally:
        stop.set()
        thread.join()
    return most


def contenders(pm: Any, path: Path, nbytes: int) -> dict[str, Call]:
    memory = pm.DeviceMemoryResource(0).allocate(nbytes)
    takers: dict[str, Call] = {
        "np.fromfile and a copy": lambda: memory.copy_from(np.fromfile(path, np.uint8)),
        "portamem": lambda: memory.load(path),
    }
    if cupy := module_with_device("cupy", lambda it: it.cuda.runtime.getDeviceCount() > 0):
        theirs = cupy.empty(nbytes, cupy.uint8)
        takers["np.fromfile and CuPy"] = lambda: (
            theirs.set(np.fromfile(path, np.uint8)),
            cupy.cuda.get_current_stream().synchronize(),
        )
    if torch := module_with_device("torch", lambda it: it.cuda.is_available()):
        tensor = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        takers["torch.from_file"] = lambda: (
            tensor.copy_(torch.from_file(str(path), size=nbytes, dtype=torch.uint8)),
            torch.cuda.synchronize(),
        )
    return takers


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="cuda", choices=["host", "cuda", "hip"])
    parser.add_argument("--mib", type=int, default=4096, help="MiB of the file (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--folder", help="where the file is made (default: the system's temporary folder)")
    parser.add_argument("--json", help="file that gets the figures too")
    options = parser.parse_args()
    pm = importlib.import_module(f"portamem.{options.backend}")
    nbytes = options.mib * MIB
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "bytes"
        with path.open("wb") as file:
            for number in range(options.mib):
                file.write(np.full(MIB, number % 251, np.uint8).tobytes())
            file.flush()
            os.fsync(file.fileno())
        takers = contenders(pm, path, nbytes)
        times: dict[str, list[float]] = {name: [] for name in takers}
        for _ in range(options.rounds + 1):
            for name, call in takers.items():
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
        peak = growth_of_host_memory(takers["portamem"])
    rates = {name: nbytes / statistics.median(values[1:]) / 1e9 for name, values in times.items()}
    plain = rates["np.fromfile and a copy"]
    print(f"{options.backend}: {pm.Device(0).name}, a file of {options.mib} MiB, GB/s (ratio to the first)")
    for name, rate in rates.items():
        print(f"  {name}: {rate:.1f} ({rate / plain:.2f})")
    print(f"  host memory beside it: {peak / 1e6:.0f} MB", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rates": rates, "host_bytes": peak}, file, indent=1)


if __name__ == "__main__":
    main()
