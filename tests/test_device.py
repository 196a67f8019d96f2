"""Devices: what is no clause of the contract."""

from __future__ import annotations

from typing import Any


def test_default_streams(device: Any) -> None:
    assert device.default_stream.is_default
    assert device.per_thread_stream.is_default
    assert device.default_stream == device.default_stream
    assert device.default_stream != device.per_thread_stream
    assert device.default_stream.device == device
    assert not device.default_stream.is_nonblocking
