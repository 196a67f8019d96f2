"""Sizes: an int of any kind, or text with a binary unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portamem


class Sixteen:
    def __index__(self) -> int:
        return 16


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [
        (16, 16),
        (Sixteen(), 16),
        (np.int32(16), 16),
        (np.uint64(16), 16),
        ("16", 16),
        ("16 B", 16),
        ("1 KiB", 1 << 10),
        ("1KiB", 1 << 10),
        ("1 kib", 1 << 10),
        ("1 kB", 1000),
        ("2.5 MB", 2_500_000),
        ("  2 KiB ", 2 << 10),
        ("0.5 MiB", 1 << 19),
        ("3 MiB", 3 << 20),
        ("0 GiB", 0),
        (0, 0),
    ],
)
def test_sizes_that_are_taken(device_resource: Any, size: Any, nbytes: int) -> None:
    with device_resource.allocate(size) as buf:
        assert buf.nbytes == nbytes


@pytest.mark.parametrize(
    "size", ["", " ", "MiB", "64 miles", "64 MiB extra", "1e3", "0x10", "nan KiB", "inf", "1,5 KiB", "-1", "-1 KiB"]
)
def test_text_that_is_no_size(device_resource: Any, size: str) -> None:
    with pytest.raises(ValueError, match='such as 4096, "64 MiB"'):
        device_resource.allocate(size)


@pytest.mark.parametrize("size", [-1, -(2**70), np.int64(-5)])
def test_negative_sizes(device_resource: Any, size: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        device_resource.allocate(size)


@pytest.mark.parametrize("size", [2**63, 2**64, 2**64 + 1, 2**200, "16 EiB", "99999999999 TiB"])
def test_sizes_beyond_any_address_space(device_resource: Any, size: Any) -> None:
    with pytest.raises(ValueError, match=r"larger than any memory|is more than"):
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


@pytest.mark.parametrize("size", [2**50, "1 PiB", 2**62])
def test_absurd_sizes_are_out_of_memory(device_resource: Any, size: Any) -> None:
    with pytest.raises(portamem.OutOfMemoryError):
        device_resource.allocate(size)
    with device_resource.allocate(4096) as buf:
        buf.fill(1)


def test_a_size_whose_index_raises(device_resource: Any) -> None:
    class Broken:
        def __index__(self) -> int:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        device_resource.allocate(Broken())
