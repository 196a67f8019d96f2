# SPDX-License-Identifier: MIT
"""A few words of memory through which the host and a running kernel talk: they hear each other where the memory is
coherent, and only there."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any

from portamem.conformance.kit.expect import eventually
from portamem.conformance.witness.base import Witness

_ENTERED, _RELEASED, _TIMED_OUT, _LEFT = range(4)
_TIMEOUT_S = 5.0


class Words:
    """Queues the witness's latch kernel over pinned memory of portamem's. It ends by itself after a timeout."""

    def __init__(self, kernels: Witness, buf: Any, stream: Any) -> None:
        self._stream = stream
        self._words = (ctypes.c_uint32 * 4).from_address(buf.handle)
        self._words[:] = [0, 0, 0, 0]
        address = kernels.pointer(buf.handle).device_pointer
        kernels.launch("latch", stream.handle, 1, 1, address or buf.handle, kernels.latch_ticks(_TIMEOUT_S))

    def kernel_is_seen(self) -> bool:
        """True where the host sees what the kernel wrote, while that runs."""
        return eventually(lambda: self._words[_ENTERED] != 0)

    def host_is_seen(self) -> bool:
        """True where the kernel sees what the host writes, while that runs. Returns once it has ended."""
        self._words[_RELEASED] = 1
        self._stream.synchronize()
        return self._words[_TIMED_OUT] == 0 and self._words[_LEFT] == 1

    def __enter__(self) -> Words:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._words[_RELEASED] = 1
        self._stream.synchronize()
