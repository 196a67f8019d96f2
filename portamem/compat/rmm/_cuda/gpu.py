# SPDX-License-Identifier: MIT
"""Devices of the runtime, over portamem. RMM keeps this module to itself; programs use it nevertheless."""

from __future__ import annotations

from typing import SupportsIndex

import portamem
from portamem.errors import Error

# The runtime's failures, by RMM's names.
CUDARuntimeError = Error
CUDADriverError = Error


def getDevice() -> int:  # noqa: N802 (RMM's name, as below)
    """The ordinal of the calling thread's current device."""
    return portamem.Device().ordinal


def setDevice(device: SupportsIndex) -> None:  # noqa: N802
    """Makes a device the calling thread's current one. Raises ValueError for a device that is not there."""
    portamem.Device(device).set_current()


def getDeviceCount() -> int:  # noqa: N802
    """The number of devices that the process sees."""
    return portamem.device_count()


def deviceGetName(device: SupportsIndex) -> str:  # noqa: N802
    """The name of a device. Raises ValueError for a device that is not there."""
    return portamem.Device(device).name


def driverGetVersion() -> int:  # noqa: N802
    """The newest runtime version that the driver supports, as the vendor's number; 0 without a driver."""
    return portamem.driver_version()


def runtimeGetVersion() -> int:  # noqa: N802
    """The version of the runtime, as the vendor's number."""
    return portamem.runtime_version()
