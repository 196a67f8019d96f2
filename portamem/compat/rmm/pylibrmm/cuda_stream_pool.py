# SPDX-License-Identifier: MIT
"""A fixed number of streams, handed out in turn."""

from __future__ import annotations

import itertools
from typing import SupportsIndex

from portamem.compat.rmm._sizes import nbytes_of
from portamem.compat.rmm.pylibrmm.stream import CudaStreamFlags, Stream


class CudaStreamPool:
    """Streams of the device that is the calling thread's current one when the pool is made, handed out in turn."""

    def __init__(self, pool_size: int = 16, flags: CudaStreamFlags | int = CudaStreamFlags.SYNC_DEFAULT) -> None:
        """Creates ``pool_size`` streams, which the pool owns together with the callers that hold one. Raises ValueError
        for a pool of none."""
        if nbytes_of(pool_size) == 0:
            raise ValueError("a pool of streams has at least one stream")
        self._streams = [Stream(flags=CudaStreamFlags(flags)) for _ in range(pool_size)]
        self._turns = itertools.count()

    def get_stream(self, stream_id: SupportsIndex | None = None) -> Stream:
        """The next stream in turn, or that of a number, counted from 0. A number beyond the last begins again at the
        first. Raises ValueError for a negative number."""
        turn = next(self._turns) if stream_id is None else nbytes_of(stream_id)
        return self._streams[turn % len(self._streams)]

    def get_pool_size(self) -> int:
        """The number of streams."""
        return len(self._streams)
