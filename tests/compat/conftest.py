# SPDX-License-Identifier: MIT
"""RMM's API over the backend under test, set back to portamem's own defaults after each test."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def rmm(pm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name in ("RMM_LOG_FILE", "RMM_DEBUG_LOG_FILE"):
        monkeypatch.delenv(name, raising=False)
    module = importlib.import_module("portamem.compat.rmm")
    yield module
    gc.collect()
    module.reinitialize(devices=[])
    module.set_logging_level(module.level_enum.info)
    module.set_flush_level(module.level_enum.off)


@pytest.fixture
def migrating(device: Any) -> None:
    """For tests that see managed memory move."""
    if not device.capabilities.concurrent_managed_access:
        pytest.skip("managed memory does not migrate here")


@pytest.fixture
def driver_pools(device: Any) -> None:
    """For tests of the driver's pools."""
    if not device.capabilities.memory_pools:
        pytest.skip(f"{device!r} has no pools")
