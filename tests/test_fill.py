"""Fills: every byte, every value, no byte beyond."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import allocate, read_back


@pytest.mark.parametrize("value", [0, 1, 0x7F, 0x80, 255, np.uint8(200)])
@pytest.mark.parametrize("on_stream", [False, True], ids=["blocking", "stream"])
def test_every_byte(pm: ModuleType, resource: Any, stream: Any, value: int, on_stream: bool) -> None:
    with allocate(resource, 1003) as buf:
        done = buf.fill(value, stream=stream if on_stream else None)
        if on_stream:
            done.synchronize()
        else:
            assert done is None
        assert read_back(pm, buf) == bytes([value]) * 1003


def test_no_byte_beyond(pm: ModuleType, resource: Any) -> None:
    with allocate(resource, 100) as buf:
        buf.fill(1)
        with buf[33:67] as middle:
            middle.fill(2)
        assert read_back(pm, buf) == b"\x01" * 33 + b"\x02" * 34 + b"\x01" * 33


@pytest.mark.parametrize("value", [-1, 256, 2**70])
def test_values_that_are_no_byte(device_resource: Any, value: int) -> None:
    with device_resource.allocate(16) as buf, pytest.raises(ValueError, match=r"0 (to|and|\.\.) ?255"):
        buf.fill(value)


@pytest.mark.parametrize("value", [1.0, "1", None, b"1"])
def test_values_that_are_no_int(device_resource: Any, value: Any) -> None:
    with device_resource.allocate(16) as buf, pytest.raises(TypeError, match=r"(?i)int"):
        buf.fill(value)
