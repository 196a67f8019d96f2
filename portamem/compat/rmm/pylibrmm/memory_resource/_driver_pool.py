# SPDX-License-Identifier: MIT
"""Resources over the driver's own pools."""

from __future__ import annotations

from typing import Any, SupportsIndex

import portamem
from portamem.compat.rmm._sizes import parse_bytes
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource


class CudaAsyncMemoryResource(DeviceMemoryResource):
    """Stream-ordered memory of a driver pool of its own, on the calling thread's current device."""

    __slots__ = ()

    def __init__(
        self,
        initial_pool_size: SupportsIndex | str | None = None,
        release_threshold: SupportsIndex | str | None = None,
        enable_ipc: bool = False,
        enable_fabric: bool = False,
    ) -> None:
        """Makes a driver pool. ``initial_pool_size``: bytes that it takes of the device at once and keeps at hand.
        ``release_threshold``: bytes that it keeps at a synchronize; None keeps all.

        Raises RuntimeError for ``enable_ipc`` and ``enable_fabric``: portamem makes no pool that other processes open.
        """
        if enable_ipc or enable_fabric:
            raise NotImplementedError(
                "portamem makes no pool that other processes open: Requested IPC memory handle type not supported"
            )
        threshold = None if release_threshold is None else parse_bytes(release_threshold)
        pool = portamem.AsyncMemoryResource(release_threshold=threshold)
        super().__init__(pool)
        initial = 0 if initial_pool_size is None else parse_bytes(initial_pool_size)
        if initial:
            pool.allocate(initial, stream=pool.device.default_stream).close()

    def pool_handle(self) -> int:
        """The native pool as a number, for other libraries."""
        return _handle_of(self._resource)


class CudaAsyncViewMemoryResource(DeviceMemoryResource):
    """Stream-ordered memory of a driver pool that another library made, on the calling thread's current device."""

    __slots__ = ()

    def __init__(self, pool_handle: Any) -> None:
        """Takes a pool by its handle: an object of cuda-python or hip-python, which is kept alive, or a number. The
        pool stays its owner's, who keeps it as long as this resource and its memory live.

        Raises ValueError for what is no handle.
        """
        is_handle = hasattr(pool_handle, "__int__") and not isinstance(pool_handle, (bool, float))
        if not is_handle or int(pool_handle) == 0:
            raise ValueError(f"pool_handle is the handle of a memory pool, not {pool_handle!r}")
        device = portamem.Device()
        super().__init__(portamem.AsyncMemoryResource.from_handle(int(pool_handle), device, owner=pool_handle))

    def pool_handle(self) -> int:
        """The native pool as a number, for other libraries."""
        return _handle_of(self._resource)


def _handle_of(resource: portamem.MemoryResource) -> int:
    assert isinstance(resource, portamem.AsyncMemoryResource)
    return resource.pool_handle
