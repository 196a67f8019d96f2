# SPDX-License-Identifier: MIT
"""Resources that RMM calls experimental."""

from __future__ import annotations

import portamem
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource

__all__ = ["CudaAsyncManagedMemoryResource"]


class CudaAsyncManagedMemoryResource(DeviceMemoryResource):
    """Stream-ordered managed memory: a pool of portamem's over managed memory, and not the driver's own pool of it."""

    __slots__ = ()

    def __init__(self) -> None:
        """Makes a pool of managed memory of the calling thread's current device."""
        super().__init__(portamem.PoolMemoryResource(portamem.ManagedMemoryResource()))

    def pool_handle(self) -> int:
        """Raises RuntimeError: the driver has no pool here whose handle other libraries could take."""
        raise NotImplementedError(
            "this is a pool of portamem's, which has no handle: the driver's has, and is not used"
        )
