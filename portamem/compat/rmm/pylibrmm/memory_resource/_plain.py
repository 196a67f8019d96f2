# SPDX-License-Identifier: MIT
"""Resources that call the runtime for each allocation. Each is of the calling thread's current device."""

from __future__ import annotations

import portamem
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource


class CudaMemoryResource(DeviceMemoryResource):
    """Plain device memory: the runtime's Malloc and Free."""

    __slots__ = ()

    def __init__(self) -> None:
        """Makes a resource of the current device's memory."""
        super().__init__(portamem.DeviceMemoryResource())


class ManagedMemoryResource(DeviceMemoryResource):
    """Managed memory: one address for host and device."""

    __slots__ = ()

    def __init__(self) -> None:
        """Makes a resource of managed memory of the current device."""
        super().__init__(portamem.ManagedMemoryResource())


class PinnedHostMemoryResource(DeviceMemoryResource):
    """Page-locked host memory, which device and host reach."""

    __slots__ = ()

    def __init__(self) -> None:
        """Makes a resource of page-locked host memory for the current device."""
        super().__init__(portamem.PinnedMemoryResource())


class SystemMemoryResource(DeviceMemoryResource):
    """Ordinary host memory, on devices that reach it."""

    __slots__ = ()

    def __init__(self) -> None:
        """Makes a resource of ordinary host memory for the current device. Raises RuntimeError where that device has no
        pageable memory access: its kernels could not use the memory."""
        super().__init__(reachable_system_memory())


def reachable_system_memory() -> portamem.SystemMemoryResource:
    """System memory that the current device reaches. Raises RuntimeError where it does not."""
    device = portamem.Device()
    if not device.capabilities.pageable_memory_access:
        raise portamem.Error(
            f"device {device.ordinal} does not reach system memory (it has no pageable memory access): take a "
            "PinnedHostMemoryResource or a ManagedMemoryResource",
            name="NotSupported",
            call="SystemMemoryResource",
            backend=device.backend,
        )
    return portamem.SystemMemoryResource(device)
