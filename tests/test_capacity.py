"""Out of memory: an exception with the figures, and everything works again after a free."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, allocate, read_back

import portamem

TOO_MUCH = 2**50


@pytest.mark.parametrize("kind", ["device", "managed", "async", "async-default_pool", "pinned", "system"])
def test_out_of_memory_and_then_success(pm: ModuleType, make_resource: Callable[[str], Any], kind: str) -> None:
    resource = make_resource(kind)
    with pytest.raises(portamem.OutOfMemoryError) as caught:
        allocate(resource, TOO_MUCH)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.asked == TOO_MUCH
    assert caught.value.backend == pm.backend
    assert (resource.live_buffers, resource.live_bytes) == (0, 0)
    with allocate(resource, MIB) as buf:
        buf.fill(1)
        assert read_back(pm, buf) == b"\x01" * MIB


@pytest.mark.host_only
@pytest.mark.parametrize("kind", ["device", "async"])
def test_the_capacity_is_enforced(
    pm: ModuleType, device: Any, knobs: Any, make_resource: Callable[[str], Any], kind: str
) -> None:
    resource = make_resource(kind)
    device.synchronize()
    knobs.set_capacity(device, device.memory_info().total - device.memory_info().free + 64 * MIB)
    live = []
    with pytest.raises(portamem.OutOfMemoryError):
        live.extend(allocate(resource, 4 * MIB) for _ in range(65))
    assert 8 <= len(live) <= 16
    for buf in live:
        buf.fill(5)
    live.pop().close()
    device.synchronize()
    with allocate(resource, 4 * MIB) as again:
        again.fill(6)
        assert read_back(pm, again) == b"\x06" * (4 * MIB)
    for buf in live:
        assert read_back(pm, buf) == b"\x05" * (4 * MIB)
        buf.close()


@pytest.mark.host_only
def test_the_message_says_what_is_where(pm: ModuleType, device: Any, knobs: Any, pool: Any, stream: Any) -> None:
    pool.allocate(16 * MIB, stream=stream).close()
    stream.synchronize()
    with pm.DeviceMemoryResource(device) as resource, resource.allocate(8 * MIB):
        knobs.set_capacity(device, 64 * MIB)
        with pytest.raises(portamem.OutOfMemoryError) as caught:
            resource.allocate(100 * MIB)
    error = caught.value
    text = str(error)
    assert error.asked == 100 * MIB
    assert (error.code, error.name) == (2, "OutOfMemory")
    for figure in (100 * MIB, 64 * MIB, 8 * MIB):  # asked, the device's, and in use
        assert str(figure) in text
    for word in (error.call, "asked", "hold", "others", "cache", "close"):
        assert word in text


@pytest.mark.host_only
def test_a_pools_cache_can_be_given_back(device: Any, knobs: Any, pool: Any, stream: Any, device_resource: Any) -> None:
    pool.allocate(32 * MIB, stream=stream).close()
    stream.synchronize()
    info = device.memory_info()
    knobs.set_capacity(device, info.total - info.free + MIB)
    pool.trim()
    with device_resource.allocate(16 * MIB) as buf:
        buf.fill(1)


@pytest.mark.host_only
def test_memory_info_shows_the_capacity(device: Any, knobs: Any) -> None:
    knobs.set_capacity(device, "96 MiB")
    assert device.memory_info().total == 96 * MIB
    assert device.memory_info().free <= 96 * MIB


@pytest.mark.host_only
def test_each_device_has_its_own(pm: ModuleType, two_devices: tuple[Any, Any], knobs: Any) -> None:
    first, second = two_devices
    knobs.set_capacity(first, 8 * MIB)
    with pm.DeviceMemoryResource(first) as here, pm.DeviceMemoryResource(second) as there:
        with pytest.raises(portamem.OutOfMemoryError):
            here.allocate(16 * MIB)
        with there.allocate(16 * MIB) as buf:
            buf.fill(1)
