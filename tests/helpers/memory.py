"""Writing and reading any kind of memory: always through copies, so that device memory is never dereferenced."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from portamem.conformance.kit.memory import KIB, MIB, overlapping

__all__ = ["KIB", "MIB", "allocate", "overlapping", "pattern", "read_back", "write"]


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
