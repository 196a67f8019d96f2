# SPDX-License-Identifier: MIT
"""GB/s of a leg's copies on a GPU, beside the vendor's own call between the same host memory and plain device memory.

The vendor is called through its own Python package, cuda-python or hip-python, where that is installed. Host rates
say nothing about a GPU, so nothing is measured there.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import portamem as pm
from portamem.demo.legs import Leg, OpenFar, OpenNear, host_bytes, overlapped

_TURNS = 9

Copy = Callable[[int, int, int, "pm.Stream | None"], None]


class Rates(NamedTuple):
    """10^9 bytes per second, there and back counted both; ``vendor`` is None without the vendor's package."""

    portamem: float
    vendor: float | None


def measure(leg: Leg, way: Any, nbytes: int) -> Rates:
    """The median of a few turns, each way on one stream or, for the overlapped way, on two at once."""
    lanes = 2 if way is overlapped else 0
    vendor = vendor_copy()
    return Rates(
        _portamem(leg.open_near(way), leg.far, nbytes, lanes),
        _vendor(vendor, leg.open_near(way), nbytes, lanes) if vendor else None,
    )


def _portamem(open_near: OpenNear, open_far: OpenFar, nbytes: int, lanes: int) -> float:
    with ExitStack() as stack:
        streams = _open_streams(stack, lanes)
        nears = [stack.enter_context(open_near(nbytes)) for _ in streams]
        fars = [stack.enter_context(open_far(nbytes)) for _ in streams]

        def turn() -> None:
            for near, far, stream in zip(nears, fars, streams, strict=True):
                far.put(near, stream)
                far.get(near, stream)

        return _rate(turn, streams, nbytes)


def _vendor(copy: Copy, open_near: OpenNear, nbytes: int, lanes: int) -> float:
    with ExitStack() as stack:
        streams = _open_streams(stack, lanes)
        device = stack.enter_context(pm.DeviceMemoryResource())
        nears = [stack.enter_context(open_near(nbytes)) for _ in streams]  # keeps what the addresses are of
        fars = [stack.enter_context(device.allocate(nbytes)).handle for _ in streams]
        addresses = [host_bytes(near).ctypes.data for near in nears]

        def turn() -> None:
            for near, far, stream in zip(addresses, fars, streams, strict=True):
                copy(far, near, nbytes, stream)
                copy(near, far, nbytes, stream)

        return _rate(turn, streams, nbytes)


def _open_streams(stack: ExitStack, lanes: int) -> list[pm.Stream | None]:
    """No lane at all means copies without a stream."""
    return [stack.enter_context(pm.Stream()) for _ in range(lanes)] or [None]


def _rate(turn: Callable[[], None], streams: list[pm.Stream | None], nbytes: int) -> float:
    seconds = []
    for _ in range(_TURNS):
        begin = time.perf_counter()
        turn()
        for stream in streams:
            if stream is not None:
                stream.synchronize()
        seconds.append(time.perf_counter() - begin)
    return 2 * nbytes * len(streams) / statistics.median(seconds) / 1e9


def vendor_copy() -> Copy | None:
    """The vendor's Memcpy, or MemcpyAsync with a stream; None where its Python package is not installed.

    None also where hip-python finds no AMD GPU: HIP's headers work on NVIDIA GPUs too, and hip-python does not.
    """
    try:
        return _cuda_copy() if pm.backend == "cuda" else _hip_copy()
    except ImportError:
        return None


def _cuda_copy() -> Copy:
    runtime = importlib.import_module("cuda.bindings.runtime")
    kind = runtime.cudaMemcpyKind.cudaMemcpyDefault

    def copy(dst: int, src: int, nbytes: int, stream: pm.Stream | None) -> None:
        if stream is None:
            (error,) = runtime.cudaMemcpy(dst, src, nbytes, kind)
        else:
            (error,) = runtime.cudaMemcpyAsync(dst, src, nbytes, kind, stream.handle)
        _check(error)

    return copy


def hip_python() -> Any:
    """The module with hip-python's calls: a submodule of ``hip`` up to release 7, a name in it from release 10 on."""
    return __import__("hip", fromlist=["hip"]).hip


def _hip_copy() -> Copy | None:
    hip = hip_python()
    try:
        (error, count) = hip.hipGetDeviceCount()
    except RuntimeError:  # its first call loads libamdhip64, and says so where it cannot
        return None
    if int(error) != 0 or count == 0:
        return None
    kind = hip.hipMemcpyKind.hipMemcpyDefault

    def copy(dst: int, src: int, nbytes: int, stream: pm.Stream | None) -> None:
        if stream is None:
            (error,) = hip.hipMemcpy(dst, src, nbytes, kind)
        else:
            (error,) = hip.hipMemcpyAsync(dst, src, nbytes, kind, stream.handle)
        _check(error)

    return copy


def _check(error: Any) -> None:
    if int(error) != 0:
        raise RuntimeError(f"the vendor's copy answered {error.name}")
