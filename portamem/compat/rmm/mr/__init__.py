# SPDX-License-Identifier: MIT
"""RMM's memory resources: where memory comes from, and what watches it on the way."""

from __future__ import annotations

from portamem.compat.rmm.mr import experimental
from portamem.compat.rmm.pylibrmm import memory_resource as _resources
from portamem.compat.rmm.pylibrmm.memory_resource import *  # noqa: F403 (RMM has the same names here)

__all__ = ["experimental"]
__all__ += _resources.__all__
