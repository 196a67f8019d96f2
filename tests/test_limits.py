"""Device limits: read, set, refused."""

from __future__ import annotations

from typing import Any

import pytest
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


@pytest.mark.parametrize("name", ["stack_size", "malloc_heap_size"])
def test_limits_by_name(device: Any, name: str) -> None:
    try:
        value = device.limit(name)
    except portamem.Error as refused:
        assert refused.code == 215  # noqa: PT017
        return
    assert value > 0


@pytest.mark.host_only
@pytest.mark.parametrize("name", ["stack_size", "printf_fifo_size", "malloc_heap_size"])
def test_a_limit_that_was_set_is_there(device: Any, name: str) -> None:
    before = device.limit(name)
    device.set_limit(name, "2 MiB")
    assert device.limit(name) == 2 * MIB
    device.set_limit(name, before)


def test_unknown_limits(device: Any) -> None:
    with pytest.raises(ValueError, match="malloc_heap_size"):
        device.limit("heap")
    with pytest.raises(ValueError, match="malloc_heap_size"):
        device.set_limit("heap", 1)


@pytest.mark.parametrize(
    ("size", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("much", ValueError)]
)
def test_sizes_that_are_none(device: Any, size: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        device.malloc_heap_size = size


def test_limits_belong_to_a_device(two_devices: tuple[Any, Any]) -> None:
    first, second = two_devices
    before = second.limit("stack_size")
    first.set_current()
    try:
        second.set_limit("stack_size", before)
    except portamem.Error as refused:
        assert refused.name == "NotSupported"  # noqa: PT017 - HIP before 5.3 sets no limit
    assert second.limit("stack_size") == before
    assert type(first).current() == first
