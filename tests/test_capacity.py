"""The capacity of a device of the host runtime."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.memory import MIB


@pytest.mark.host_only
def test_memory_info_shows_the_capacity(device: Any, knobs: Any) -> None:
    knobs.set_capacity(device, "96 MiB")
    assert device.memory_info().total == 96 * MIB
    assert device.memory_info().free <= 96 * MIB
