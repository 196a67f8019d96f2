"""Pitched memory and 2-D copies and fills."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.memory import pattern, read_back


@pytest.fixture
def rows() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(pattern(100 * 17), np.uint8).reshape(17, 100)


def test_pitched_memory(device_resource: Any) -> None:
    with device_resource.allocate_pitched(100, 17) as buf:
        assert (buf.width, buf.height) == (100, 17)
        assert buf.pitch >= 100
        assert buf.pitch % 32 == 0
        assert buf.nbytes == buf.pitch * 17
        assert buf.handle != 0
        assert device_resource.live_bytes == buf.nbytes


@pytest.mark.parametrize("on_stream", [False, True], ids=["blocking", "stream"])
def test_there_and_back(
    pm: ModuleType, device_resource: Any, stream: Any, rows: np.ndarray[Any, Any], on_stream: bool
) -> None:
    out = np.zeros_like(rows)
    where = stream if on_stream else None
    with device_resource.allocate_pitched(100, 17) as buf:
        pm.copy_2d(buf, rows, stream=where)
        done = pm.copy_2d(out, buf, stream=where)
        if on_stream:
            done.synchronize()
    assert np.array_equal(out, rows)


def test_between_pitched_buffers(pm: ModuleType, device_resource: Any, rows: np.ndarray[Any, Any]) -> None:
    out = np.zeros_like(rows)
    with device_resource.allocate_pitched(100, 17) as first, device_resource.allocate_pitched(100, 17) as second:
        pm.copy_2d(first, rows)
        pm.copy_2d(second, first)
        pm.copy_2d(out, second)
    assert np.array_equal(out, rows)


def test_padding_is_left_alone(pm: ModuleType, device_resource: Any, rows: np.ndarray[Any, Any]) -> None:
    with device_resource.allocate_pitched(100, 17) as buf:
        buf.fill(0xEE)
        pm.copy_2d(buf, rows)
        pm.fill_2d(buf, 7)
        image = np.frombuffer(read_back(pm, buf), np.uint8).reshape(17, buf.pitch)
    assert (image[:, :100] == 7).all()
    assert (image[:, 100:] == 0xEE).all()


def test_a_box_out_of_a_bigger_one(pm: ModuleType, device_resource: Any, rows: np.ndarray[Any, Any]) -> None:
    out = np.zeros((5, 32), np.uint8)
    with device_resource.allocate(rows.nbytes) as buf:
        buf.copy_from(rows)
        pm.copy_2d(out, buf[8:], width=32, height=5, src_pitch=100)
    assert np.array_equal(out, rows[:5, 8:40])


def test_fill_2d_on_a_stream(pm: ModuleType, device_resource: Any, stream: Any) -> None:
    out = np.zeros((3, 40), np.uint8)
    with device_resource.allocate_pitched(40, 3) as buf:
        pm.fill_2d(buf, 255, stream=stream).synchronize()
        pm.copy_2d(out, buf)
    assert (out == 255).all()


@pytest.mark.parametrize(("width", "height"), [(0, 4), (4, 0), (0, 0)])
def test_no_rows_or_no_width(pm: ModuleType, device_resource: Any, width: int, height: int) -> None:
    with device_resource.allocate_pitched(width, height) as buf:
        assert (buf.handle, buf.nbytes, buf.width, buf.height) == (0, 0, width, height)
        pm.fill_2d(buf, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 101, "height": 1, "src_pitch": 100}, r"pitch|width"),
        ({"width": 100, "height": 18, "src_pitch": 100}, r"1[78]00|fit|height"),
        ({"width": 100, "height": 17, "src_pitch": 101}, r"fit|1716|1700"),
        ({"width": -1, "height": 17}, "negative"),
        ({"width": 100, "height": -1}, "negative"),
        ({"width": 100, "height": 17, "dst_pitch": 50}, r"pitch"),
        ({"width": 2**40, "height": 2**40, "src_pitch": 2**40, "dst_pitch": 2**40}, r"overflow|too large|fit|large"),
    ],
)
def test_boxes_must_fit(
    pm: ModuleType, device_resource: Any, rows: np.ndarray[Any, Any], arguments: dict[str, int], message: str
) -> None:
    with device_resource.allocate_pitched(100, 17) as buf, pytest.raises(ValueError, match=message):
        pm.copy_2d(buf, rows, **arguments)


def test_plain_memory_needs_a_width_and_a_height(pm: ModuleType, device_resource: Any) -> None:
    with device_resource.allocate(100) as buf, pytest.raises((ValueError, TypeError), match=r"width|height"):
        pm.copy_2d(buf, bytes(100))


def test_a_sub_view_of_pitched_memory_is_plain(pm: ModuleType, device_resource: Any) -> None:
    with device_resource.allocate_pitched(100, 4) as buf, buf[:100] as row:
        row.fill(1)
        assert not isinstance(row, pm.PitchedBuffer)
        assert read_back(pm, row) == b"\x01" * 100
