# SPDX-License-Identifier: MIT
"""RMM's memory resources, and the one that is current on each device."""

from __future__ import annotations

from portamem.compat.rmm.pylibrmm.memory_resource._adaptors import (
    FailureCallbackResourceAdaptor,
    LimitingResourceAdaptor,
    PrefetchResourceAdaptor,
    StatisticsResourceAdaptor,
    TrackingResourceAdaptor,
)
from portamem.compat.rmm.pylibrmm.memory_resource._base import (
    DeviceMemoryResource,
    UpstreamResourceAdaptor,
)
from portamem.compat.rmm.pylibrmm.memory_resource._binning import (
    BinningMemoryResource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._callback import (
    CallbackMemoryResource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._csv_log import (
    LoggingResourceAdaptor,
)
from portamem.compat.rmm.pylibrmm.memory_resource._driver_pool import (
    CudaAsyncMemoryResource,
    CudaAsyncViewMemoryResource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._headroom import (
    SamHeadroomMemoryResource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._per_device import (
    available_device_memory,
    disable_logging,
    enable_logging,
    get_current_device_resource,
    get_log_filenames,
    get_per_device_resource,
    is_initialized,
    set_current_device_resource,
    set_per_device_resource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._plain import (
    CudaMemoryResource,
    ManagedMemoryResource,
    PinnedHostMemoryResource,
    SystemMemoryResource,
)
from portamem.compat.rmm.pylibrmm.memory_resource._pools import (
    ArenaMemoryResource,
    FixedSizeMemoryResource,
    PoolMemoryResource,
)

__all__ = [
    "ArenaMemoryResource",
    "BinningMemoryResource",
    "CallbackMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaAsyncViewMemoryResource",
    "CudaMemoryResource",
    "DeviceMemoryResource",
    "FailureCallbackResourceAdaptor",
    "FixedSizeMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "PinnedHostMemoryResource",
    "PoolMemoryResource",
    "PrefetchResourceAdaptor",
    "SamHeadroomMemoryResource",
    "StatisticsResourceAdaptor",
    "SystemMemoryResource",
    "TrackingResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "disable_logging",
    "enable_logging",
    "get_current_device_resource",
    "get_log_filenames",
    "get_per_device_resource",
    "is_initialized",
    "set_current_device_resource",
    "set_per_device_resource",
]
