# SPDX-License-Identifier: MIT
"""The names that programs import from the module in which RMM has its resources."""

from __future__ import annotations

from portamem.compat.rmm.pylibrmm import memory_resource as _resources
from portamem.compat.rmm.pylibrmm.memory_resource import *  # noqa: F403 (RMM has the same names here)
from portamem.compat.rmm.pylibrmm.memory_resource._per_device import _flush_logs, _initialize

__all__ = ["_flush_logs", "_initialize"]
__all__ += _resources.__all__
