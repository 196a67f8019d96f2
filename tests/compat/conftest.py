# SPDX-License-Identifier: MIT
"""RMM's API over the backend under test, set back to portamem's own defaults after each test."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def rmm(pm: ModuleType) -> Iterator[ModuleType]:
    module = importlib.import_module("portamem.compat.rmm")
    yield module
    gc.collect()
    module.reinitialize(devices=[])
    module.set_logging_level(module.level_enum.info)
    module.set_flush_level(module.level_enum.off)
