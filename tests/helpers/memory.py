"""Writing and reading any kind of memory: always through copies, so that device memory is never dereferenced."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

KIB = 1 << 10
MIB = 1 << 20


def pattern(nbytes: int, seed: int = 0) -> bytes:
    """Random bytes of a seed: a shifted, swapped or missing page shows."""
    return np.random.default_rng(seed).bytes(nbytes)


def write(pm: ModuleType, memory: Any, data: bytes) -> None:
    """Blocking copy of ``data`` into any memory of the same size."""
    pm.copy(memory, data)


def read_back(pm: ModuleType, memory: Any) -> bytes:
    """The bytes of any memory, through a blocking copy to pageable memory."""
    out = bytearray(memory.nbytes)
    pm.copy(out, memory)
    return bytes(out)


def allocate(resource: Any, nbytes: int | str, stream: Any = None) -> Any:
    """Allocates from any resource; one that is stream-ordered gets the default stream where none is named."""
    if stream is None and resource.is_stream_ordered:
        stream = resource.device.default_stream
    return resource.allocate(nbytes, stream=stream)


def overlapping(buffers: Iterable[Any]) -> list[tuple[int, int]]:
    """Pairs of neighbours (by address) whose bytes overlap."""
    ranges = sorted((buf.handle, buf.handle + buf.nbytes) for buf in buffers if buf.nbytes)
    return [(a[0], b[0]) for a, b in pairwise(ranges) if a[1] > b[0]]
