# SPDX-License-Identifier: MIT
"""The modules that RMM has its classes in, by the names from which programs import them."""

from __future__ import annotations

from portamem.compat.rmm.pylibrmm import memory_resource
from portamem.compat.rmm.pylibrmm.cuda_stream_pool import CudaStreamPool
from portamem.compat.rmm.pylibrmm.device_buffer import DeviceBuffer
from portamem.compat.rmm.pylibrmm.stream import CudaStreamFlags

__all__ = ["CudaStreamFlags", "CudaStreamPool", "DeviceBuffer", "memory_resource"]
