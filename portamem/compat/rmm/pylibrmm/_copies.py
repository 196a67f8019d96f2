# SPDX-License-Identifier: MIT
"""Copies between bare addresses and host memory. What is queued on the default stream is done on return."""

from __future__ import annotations

from typing import Any, SupportsIndex

import portamem
from portamem.compat.rmm._sizes import nbytes_of
from portamem.compat.rmm.pylibrmm._host_bytes import host_bytes
from portamem.compat.rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from portamem.compat.rmm.pylibrmm.utils import as_stream


def copy_ptr_to_host(db: int, hb: Any, stream: Stream = DEFAULT_STREAM) -> None:
    """Fills ``hb``, writable bytes-like memory, with the bytes at the address ``db``, in the order of ``stream``.

    On another stream than the default one the copy is queued, and ``hb`` is kept alive until it has run; the caller
    keeps the memory at ``db``. Raises TypeError and ValueError for an ``hb`` that is no writable row of bytes, and
    ValueError for an address of no memory.
    """
    stream, target = as_stream(stream), host_bytes(hb, "hb")
    if target.nbytes:
        source = portamem.Buffer.from_handle(db, target.nbytes)
        finish(source.copy_to(target, stream=stream.on(source.device)), stream)


def copy_host_to_ptr(hb: Any, db: int, stream: Stream = DEFAULT_STREAM) -> None:
    """Copies the bytes of ``hb``, bytes-like memory, to the address ``db``, in the order of ``stream``.

    On another stream than the default one the copy is queued, and ``hb`` is kept alive until it has run; the caller
    keeps the memory at ``db``. Raises TypeError and ValueError for an ``hb`` that is no row of bytes, and ValueError
    for an address of no memory.
    """
    stream, source = as_stream(stream), host_bytes(hb, "hb")
    if source.nbytes:
        target = portamem.Buffer.from_handle(db, source.nbytes)
        finish(target.copy_from(source, stream=stream.on(target.device)), stream)


def copy_device_to_ptr(d_src: int, d_dst: int, count: SupportsIndex, stream: Stream = DEFAULT_STREAM) -> None:
    """Queues a copy of ``count`` bytes from the address ``d_src`` to ``d_dst`` on ``stream``. The caller keeps both
    alive. On the default stream the bytes are there on return. Raises ValueError for an address of no memory."""
    stream, nbytes = as_stream(stream), nbytes_of(count)
    if nbytes:
        target = portamem.Buffer.from_handle(d_dst, nbytes)
        source = portamem.Buffer.from_handle(d_src, nbytes)
        finish(target.copy_from(source, stream=stream.on(target.device)), stream)


def finish(event: portamem.Event | None, stream: Stream) -> None:
    """Waits for a copy, if it is on the default stream."""
    if event is not None and stream.is_default():
        event.synchronize()
