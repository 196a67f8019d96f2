"""The limit of the device heap, read and set."""

from __future__ import annotations

from typing import Any

from helpers.memory import MIB

import portamem


def test_the_heap_of_kernels(device: Any) -> None:
    before = device.malloc_heap_size
    assert before > 0
    try:
        device.malloc_heap_size = "16 MiB"
    except portamem.Error as refused:
        assert refused.name in ("NotSupported", "UnsupportedLimit", "InvalidValue")  # noqa: PT017
        return
    try:
        assert device.malloc_heap_size >= 16 * MIB
        assert device.limit("malloc_heap_size") == device.malloc_heap_size
    finally:
        device.malloc_heap_size = before
