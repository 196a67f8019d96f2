# SPDX-License-Identifier: MIT
"""Time portamem's Python calls beside NumPy and the packages that people use today, in the same run.

    python benchmarks/python_calls.py [--backend host|cuda|hip] [--rounds 15]

A package that cannot be imported, or has no device, is left out. A ratio is that package's time divided by portamem's:
above 1, portamem is the faster.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"4 KiB": 4 * KIB, "256 KiB": 256 * KIB, "16 MiB": 16 * MIB}

Call = Callable[[], object]


class Case(NamedTuple):
    """One thing to do, by portamem and by others."""

    what: str
    portamem: Call
    others: dict[str, Call]


def microseconds(call: Call, calls: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - begin) / calls / 1e3


def calls_per_round(call: Call) -> int:
    """As many as make a round of some milliseconds."""
    once = min(microseconds(call, 1) for _ in range(3))
    return max(1, min(1000, int(5e3 / max(once, 0.1))))


def measure(case: Case, rounds: int) -> dict[str, float]:
    """The median of rounds in which everybody takes a turn."""
    takers = {"portamem": case.portamem, **case.others}
    counts = {name: calls_per_round(call) for name, call in takers.items()}
    times: dict[str, list[float]] = {name: [] for name in takers}
    for _ in range(rounds):
        for name, call in takers.items():
            times[name].append(microseconds(call, counts[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def cuda_bindings() -> Any:
    """The runtime module of cuda-python, or None where there is no device for it."""
    try:
        runtime = importlib.import_module("cuda.bindings.runtime")
        error, count = runtime.cudaGetDeviceCount()
    except (ImportError, RuntimeError):
        return None
    return runtime if int(error) == 0 and count > 0 else None


def module_with_device(name: str, has_device: Callable[[Any], bool]) -> Any:
    """An optional package; importing one without a usable driver fails in many ways, which all mean: leave it out."""
    try:
        module = importlib.import_module(name)
        return module if has_device(module) else None
    except Exception:
        return None


def device_allocators() -> dict[str, Callable[[int], Call]]:
    """What others do to get device memory and give it back, by name."""
    found: dict[str, Callable[[int], Call]] = {}
    if runtime := cuda_bindings():

        def malloc_free(nbytes: int) -> Call:
            return lambda: runtime.cudaFree(runtime.cudaMalloc(nbytes)[1])

        def malloc_free_async(nbytes: int) -> Call:
            return lambda: runtime.cudaFreeAsync(runtime.cudaMallocAsync(nbytes, 0)[1], 0)

        found |= {"cuda.bindings Malloc": malloc_free, "cuda.bindings MallocAsync": malloc_free_async}
    if cupy := module_with_device("cupy", lambda m: m.cuda.runtime.getDeviceCount() > 0):
        found["cupy"] = lambda nbytes: lambda: cupy.cuda.alloc(nbytes)
    if torch := module_with_device("torch", lambda m: m.cuda.is_available()):
        found["torch"] = lambda nbytes: lambda: torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    if rmm := module_with_device("rmm", lambda m: m.mr.get_current_device_resource() is not None):
        found["rmm"] = lambda nbytes: lambda: rmm.DeviceBuffer(size=nbytes)
    return found


def resources(pm: Any, stack: ExitStack) -> dict[str, Any]:
    """One open resource of each kind that the device has."""
    device = pm.Device(0)
    kinds = [pm.DeviceMemoryResource, pm.PinnedMemoryResource, pm.SystemMemoryResource]
    if device.capabilities.managed_mode != "none":
        kinds.append(pm.ManagedMemoryResource)
    if device.capabilities.memory_pools:
        kinds.append(pm.AsyncMemoryResource)
    found = {kind.__name__: stack.enter_context(kind(device)) for kind in kinds}
    return found | {"PoolMemoryResource": stack.enter_context(pm.PoolMemoryResource(device=device))}


def allocate_and_close(resource: Any, nbytes: int, stream: Any) -> Call:
    if resource.is_stream_ordered:
        return lambda: resource.allocate(nbytes, stream=stream).close()
    return lambda: resource.allocate(nbytes).close()


def allocations(pm: Any, stack: ExitStack) -> Iterator[Case]:
    import numpy as np

    stream = stack.enter_context(pm.Stream(0))
    on_device = device_allocators()
    for name, resource in resources(pm, stack).items():
        for size, nbytes in SIZES.items():
            others: dict[str, Call] = {}
            if nbytes <= MIB:  # above, it maps pages that nobody has touched: no yardstick
                others["np.empty"] = lambda nbytes=nbytes: np.empty(nbytes, np.uint8)
            if resource.device_id >= 0 and pm.backend == "cuda":
                others |= {other: make(nbytes) for other, make in on_device.items()}
            yield Case(f"{name} {size}", allocate_and_close(resource, nbytes, stream), others)


class ForeignStream:
    """A stream as other libraries have them."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.stream.handle


def foreign_streams(pm: Any, stack: ExitStack) -> Iterator[Case]:
    once, each_time = (ForeignStream(stack.enter_context(pm.Stream(0))) for _ in range(2))
    wrapped = pm.Stream.wrap(once)
    pool = stack.enter_context(pm.PoolMemoryResource(device=0))  # closed before the streams, which it knows by handle
    others = {"the object at each call": allocate_and_close(pool, 4 * KIB, each_time)}
    yield Case(
        "PoolMemoryResource 4 KiB, foreign stream wrapped once", allocate_and_close(pool, 4 * KIB, wrapped), others
    )


def copies(pm: Any, stack: ExitStack) -> Iterator[Case]:
    import numpy as np

    pinned, device = (stack.enter_context(kind(0)) for kind in (pm.PinnedMemoryResource, pm.DeviceMemoryResource))
    runtime = cuda_bindings() if pm.backend == "cuda" else None
    for size, nbytes in SIZES.items():
        near, far = (stack.enter_context(resource.allocate(nbytes)) for resource in (pinned, device))
        source, target = np.ones(nbytes, np.uint8), np.empty(nbytes, np.uint8)
        np_copy: Call = lambda target=target, source=source: np.copyto(target, source)  # noqa: E731
        for what, to, origin in (("pinned to device", far, near), ("device to pinned", near, far)):
            others = {"np.copyto": np_copy}
            if runtime is not None:
                others["cuda.bindings Memcpy"] = lambda to=to, origin=origin, nbytes=nbytes: runtime.cudaMemcpy(
                    to.handle, origin.handle, nbytes, runtime.cudaMemcpyKind.cudaMemcpyDefault
                )
            yield Case(f"copy, {what} {size}", lambda to=to, origin=origin: pm.copy(to, origin), others)


def main() -> None:
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="host", choices=["host", "cuda", "hip"])
    parser.add_argument("--rounds", type=int, default=15, help="rounds per case (default: %(default)s)")
    options = parser.parse_args()

    pm = importlib.import_module(f"portamem.{options.backend}")
    console = Console()
    if options.backend == "host":
        console.print("host: the cost of portamem's own layers; it says nothing about a GPU")
    table = Table("call", "portamem", "beside it", title=f"{options.backend}: {pm.Device(0).name}, microseconds")
    with ExitStack() as stack:
        cases = [*allocations(pm, stack), *foreign_streams(pm, stack), *copies(pm, stack)]
        for case in track(cases, console=console, transient=True):
            times = measure(case, options.rounds)
            own = times.pop("portamem")
            beside = (f"{name} {value:.2f} ({value / own:.2f}x)" for name, value in times.items())
            table.add_row(case.what, f"{own:.2f}", "\n".join(beside))
    console.print(table)


if __name__ == "__main__":
    main()
