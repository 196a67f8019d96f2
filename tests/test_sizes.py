"""Sizes that are none: what the refusals say."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    "size", ["", " ", "MiB", "64 miles", "64 MiB extra", "1e3", "0x10", "nan KiB", "inf", "1,5 KiB", "-1", "-1 KiB"]
)
def test_text_that_is_no_size(device_resource: Any, size: str) -> None:
    with pytest.raises(ValueError, match='such as 4096, "64 MiB"'):
        device_resource.allocate(size)


@pytest.mark.parametrize("size", [1.5, 16.0, None, [16], b"16", 1j, object()])
def test_what_is_no_size(device_resource: Any, size: Any) -> None:
    with pytest.raises(TypeError, match=r"size is an int or text such as '64 MiB', not "):
        device_resource.allocate(size)


@pytest.mark.parametrize("size", [True, False])
def test_a_bool_is_no_size(device_resource: Any, size: bool) -> None:
    with pytest.raises(TypeError, match="not bool"):
        device_resource.allocate(size)


def test_a_fraction_of_a_byte(device_resource: Any) -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        device_resource.allocate("0.3 B")


def test_a_size_whose_index_raises(device_resource: Any) -> None:
    class Broken:
        def __index__(self) -> int:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        device_resource.allocate(Broken())
