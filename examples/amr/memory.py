# SPDX-License-Identifier: MIT
"""Arrays in memory of a resource, and what asking for that memory cost."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np


class Array:
    """An array in memory of its own, until close()."""

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: str) -> None:
        self.memory, self.shape, self.dtype = memory, shape, dtype
        self.buffer = memory.allocate(math.prod(shape) * np.dtype(dtype).itemsize)

    @property
    def data(self) -> Any:
        """The memory as NumPy or CuPy sees it. Whoever holds it keeps close() from happening, so hold it briefly."""
        view = self.memory.pm.View(self.buffer, self.dtype, self.shape)
        return view.to_cupy() if self.memory.on_device else np.asarray(view)

    def set(self, values: np.ndarray[Any, Any]) -> Array:
        """Takes values of the host, in stream order."""
        values = np.ascontiguousarray(values, self.dtype)
        self.memory.pm.copy(self.buffer, values, stream=self.memory.stream)
        if not self.memory.on_device:
            self.memory.stream.synchronize()
        return self

    def get(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        self.memory.stream.synchronize()
        return np.array(self.memory.pm.View(self.buffer, self.dtype, self.shape).to_numpy())

    def close(self) -> None:
        self.memory.give_back(self.buffer)

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Memory:
    """A resource, used on one stream, with the time that its calls took and what was held after each of them.

    ``below``: a StatisticsAdaptor between a pool and the runtime, which sees what the pool asks for. None: each call of
    the resource is one of the runtime.
    """

    def __init__(self, pm: Any, resource: Any, below: Any, stream: Any, on_device: bool) -> None:
        self.pm, self.resource, self.below, self.stream, self.on_device = pm, resource, below, stream, on_device
        self.seconds = 0.0
        self.allocations = 0
        self.live = self.peak = 0
        self.series: list[tuple[int, int, int]] = []
        """After each allocation and each free: its number, bytes live and bytes reserved."""

    def array(self, shape: tuple[int, ...], dtype: str = "float64") -> Array:
        return Array(self, shape, dtype)

    def allocate(self, nbytes: int) -> Any:
        begin = time.perf_counter()
        buffer = self.resource.allocate(nbytes, stream=self.stream)
        self.seconds += time.perf_counter() - begin
        self.allocations += 1
        self._note(nbytes)
        return buffer

    def give_back(self, buffer: Any) -> None:
        nbytes = buffer.nbytes
        begin = time.perf_counter()
        buffer.close()
        self.seconds += time.perf_counter() - begin
        self._note(-nbytes)

    def reserved(self) -> int:
        """What the resource holds of the runtime's memory: what is live, and what a pool keeps beside that."""
        return self.live if self.below is None else int(self.below.live_bytes)

    def runtime_calls(self) -> int:
        """How often the runtime was asked for memory or given some back."""
        if self.below is None:
            return 2 * self.allocations - self.resource.live_buffers
        return 2 * self.below.counts.total_count - self.below.live_buffers

    def _note(self, nbytes: int) -> None:
        self.live += nbytes
        self.peak = max(self.peak, self.live)
        self.series.append((len(self.series), self.live, self.reserved()))
