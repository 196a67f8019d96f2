# SPDX-License-Identifier: MIT
"""Resources that RMM calls experimental."""

from __future__ import annotations

from portamem.compat.rmm.pylibrmm.memory_resource.experimental import CudaAsyncManagedMemoryResource

__all__ = ["CudaAsyncManagedMemoryResource"]
