# SPDX-License-Identifier: MIT
"""System memory that leaves some of the device's memory free."""

from __future__ import annotations

from typing import SupportsIndex

import portamem
from portamem.compat.rmm._sizes import ALIGNMENT, nbytes_of
from portamem.compat.rmm.pylibrmm.memory_resource._base import DeviceMemoryResource
from portamem.compat.rmm.pylibrmm.memory_resource._plain import reachable_system_memory


class SamHeadroomMemoryResource(DeviceMemoryResource):
    """Ordinary host memory whose pages are advised to lie on the device as long as ``headroom`` bytes of the device
    stay free, and on the host beyond that. Each allocation calls Python and asks the device for its free bytes."""

    __slots__ = ()

    def __init__(self, headroom: SupportsIndex) -> None:
        """Makes a resource of system memory for the current device. Raises RuntimeError where that device has no
        pageable memory access."""
        memory = _Advised(reachable_system_memory(), nbytes_of(headroom))
        super().__init__(
            portamem.CallbackMemoryResource(
                memory.allocate, memory.deallocate, device=memory.upstream.device, kind="system", stream_ordered=True
            )
        )


class _Advised:
    """The two functions of the resource. It knows nothing of the resource, which would else live for good."""

    def __init__(self, upstream: portamem.SystemMemoryResource, headroom: int) -> None:
        self.upstream = upstream
        self._headroom = headroom

    def allocate(self, nbytes: int, stream: portamem.Stream) -> int:
        device = self.upstream.device
        buffer = self.upstream.allocate(nbytes, stream=stream)
        spare = max(0, device.memory_info().free - self._headroom)
        on_device = min(spare, nbytes) // ALIGNMENT * ALIGNMENT
        if on_device:
            buffer[:on_device].advise("preferred_location", device)
        if on_device < nbytes:
            buffer[on_device:].advise("preferred_location", "host")
        return buffer.release()

    def deallocate(self, ptr: int, nbytes: int, stream: portamem.Stream) -> None:
        self.upstream.deallocate(ptr, nbytes, stream=stream)
