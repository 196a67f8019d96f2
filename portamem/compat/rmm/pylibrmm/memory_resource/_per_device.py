# SPDX-License-Identifier: MIT
"""The resource of each device that allocations take from where none is named."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import SupportsIndex

import portamem
from portamem.compat.rmm._sizes import parse_bytes
from portamem.compat.rmm.pylibrmm.memory_resource._base import (
    DeviceMemoryResource,
    UpstreamResourceAdaptor,
    as_resource,
    resource_over,
)
from portamem.compat.rmm.pylibrmm.memory_resource._csv_log import LoggingResourceAdaptor
from portamem.compat.rmm.pylibrmm.memory_resource._plain import CudaMemoryResource, ManagedMemoryResource
from portamem.compat.rmm.pylibrmm.memory_resource._pools import PoolMemoryResource

# The resources that programs set, by device. Everything else is portamem's: set_default_resource and current_resource.
_set: dict[int, DeviceMemoryResource] = {}
_over_portamems: weakref.WeakSet[UpstreamResourceAdaptor] = weakref.WeakSet()  # adaptors over portamem's own default
_set_lock = threading.RLock()  # a collection of garbage may come back here


def get_per_device_resource(device: SupportsIndex) -> DeviceMemoryResource:
    """The resource that allocations on a device take from where none is named: that of the innermost
    ``portamem.using``, else the one that was set for the process, else portamem's default. Raises ValueError for a
    device that is not there."""
    return _over(portamem.current_resource(device))


def set_per_device_resource(device: SupportsIndex, mr: DeviceMemoryResource) -> None:
    """Makes ``mr`` the default of a device for the whole process, portamem's own calls included, which keeps it until
    another is set. Memory that is out stays with the resource that gave it. Raises ValueError where ``mr`` is another
    device's."""
    _set_default(portamem.Device(device).ordinal, as_resource(mr))


def get_current_device_resource() -> DeviceMemoryResource:
    """The resource that allocations on the calling thread's current device take from where none is named, as
    ``get_per_device_resource`` tells it."""
    return _over(portamem.current_resource())


def set_current_device_resource(mr: DeviceMemoryResource) -> None:
    """Makes ``mr`` the default of the calling thread's current device, as ``set_per_device_resource`` does."""
    set_per_device_resource(portamem.Device(), mr)


def is_initialized() -> bool:
    """Tells whether every resource that a program has set can still allocate."""
    return all(not mr.resource.is_closed for mr in list(_set.values()))


def available_device_memory() -> tuple[int, int]:
    """Free and total bytes of the calling thread's current device."""
    info = portamem.Device().memory_info()
    return info.free, info.total


def enable_logging(log_file_name: str | os.PathLike[str] | None = None) -> None:
    """Puts a LoggingResourceAdaptor over the resource of each device that a program has set one for, and of device 0
    where none has been set. A resource that logs already stays. The name is as for ``LoggingResourceAdaptor``.
    Raises ValueError within ``portamem.using``."""
    for device in list(_set) or [0]:
        if not isinstance(get_per_device_resource(device), LoggingResourceAdaptor):
            cover(device, partial(LoggingResourceAdaptor, log_file_name=log_file_name))


def disable_logging() -> None:
    """Sets back what ``enable_logging`` or ``reinitialize`` put a LoggingResourceAdaptor over."""
    for device, mr in list(_set.items()):
        if isinstance(mr, LoggingResourceAdaptor):
            uncover(device, mr)


def get_log_filenames() -> dict[int, str | None]:
    """The file that is logged to, by device that a program has set a resource for; None where nothing is logged."""
    return {
        device: mr.get_file_name() if isinstance(mr, LoggingResourceAdaptor) else None
        for device, mr in list(_set.items())
    }


def cover(device: int, adaptor: Callable[[DeviceMemoryResource], UpstreamResourceAdaptor]) -> None:
    """Puts an adaptor over the default of a device. Raises ValueError within ``portamem.using``, whose resource is not
    the process's."""
    current = portamem.current_resource(device)
    if current is not portamem.default_resource(device):
        raise ValueError(
            "a block of portamem.using() chooses the resource here: put the adaptor over that resource yourself"
        )
    made = adaptor(_over(current))
    with _set_lock:
        if device not in _set:
            _over_portamems.add(made)
    _set_default(device, made)


def uncover(device: int, adaptor: UpstreamResourceAdaptor) -> None:
    """Makes the default of a device again what an adaptor was put over."""
    _set_default(device, None if adaptor in _over_portamems else adaptor.get_upstream())


def _flush_logs() -> None:
    """Hands the logs of all devices to the system, as far as they are written."""
    for mr in list(_set.values()):
        if isinstance(mr, LoggingResourceAdaptor):
            mr.flush()


def _initialize(
    pool_allocator: bool = False,
    managed_memory: bool = False,
    initial_pool_size: SupportsIndex | str | None = None,
    maximum_pool_size: SupportsIndex | str | None = None,
    devices: SupportsIndex | Iterable[SupportsIndex] | None = 0,
    logging: bool = False,
    log_file_name: str | os.PathLike[str] | None = None,
) -> None:
    """Sets new resources for ``devices``, and for all others sets portamem's default back: ``reinitialize``."""
    initial = maximum = None
    if pool_allocator:
        initial = None if initial_pool_size is None else parse_bytes(initial_pool_size)
        maximum = None if maximum_pool_size is None else parse_bytes(maximum_pool_size)
    ordinals = _ordinals(devices)  # nothing has changed where one of them is not there
    for device in list(_set):
        _set_default(device, None)
    for device in ordinals:
        with _current(device):
            mr: DeviceMemoryResource = ManagedMemoryResource() if managed_memory else CudaMemoryResource()
            if pool_allocator:
                mr = PoolMemoryResource(mr, initial, maximum)
            if logging:
                mr = LoggingResourceAdaptor(mr, log_file_name)
            _set_default(device, mr)


def _ordinals(devices: SupportsIndex | Iterable[SupportsIndex] | None) -> list[int]:
    if devices is None:
        return [0]
    given = devices if isinstance(devices, Iterable) else (devices,)
    return [portamem.Device(device).ordinal for device in given]


@contextmanager
def _current(device: int) -> Iterator[None]:
    """Makes a device the calling thread's current one, and afterwards the one from before."""
    before = portamem.Device()
    portamem.Device(device).set_current()
    try:
        yield
    finally:
        before.set_current()


def _over(current: portamem.MemoryResource) -> DeviceMemoryResource:
    """The resource that a program has set, if portamem's current one is that, or else one over portamem's."""
    found = _set.get(current.device.ordinal)
    return found if found is not None and found.resource is current else resource_over(current)


def _set_default(device: int, mr: DeviceMemoryResource | None) -> None:
    with _set_lock:
        before = _set.get(device)  # it ends after the lock: the last reference may call functions of the program
        portamem.set_default_resource(device, None if mr is None else mr.resource)
        if mr is None:
            _set.pop(device, None)
        else:
            _set[device] = mr
    del before
