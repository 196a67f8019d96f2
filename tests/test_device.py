"""Devices: identity, capabilities, memory, the thread's current device, peers."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, allocate

import portamem


def test_ordinals_count_from_zero(pm: ModuleType) -> None:
    devices = [pm.Device(ordinal) for ordinal in range(pm.device_count())]
    assert [int(device) for device in devices] == [device.ordinal for device in devices] == list(range(len(devices)))
    assert all(device.backend == pm.backend for device in devices)


def test_a_device_is_a_value(pm: ModuleType, device: Any) -> None:
    assert pm.Device(0) == device == pm.Device(device)
    assert hash(pm.Device(0)) == hash(device)
    assert ["the", "list"][device] == "the"  # __index__
    assert device != 0
    assert f"{device.ordinal}" in repr(device)
    assert pm.backend in repr(device)


def test_without_an_ordinal_it_is_the_current_one(pm: ModuleType) -> None:
    assert pm.Device() == pm.Device.current()


def test_identity(pm: ModuleType) -> None:
    devices = [pm.Device(ordinal) for ordinal in range(pm.device_count())]
    uuids = {device.uuid for device in devices}
    assert len(uuids) == len(devices), "two devices share a uuid"
    for device in devices:
        assert pm.Device(device.ordinal).uuid == device.uuid
        assert re.fullmatch(r"(GPU-|MIG-)?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", device.uuid)
        assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", device.pci_bus_id.lower())
        assert device.name
        assert device.arch
        assert device.numa_node is None or device.numa_node >= 0


def test_memory_info(pm: ModuleType, device: Any, device_resource: Any) -> None:
    before = device.memory_info()
    assert 0 < before.free <= before.total
    assert before.source
    with device_resource.allocate(8 * MIB):
        during = device.memory_info()
        assert during.held == before.held + 8 * MIB == pm.held(device)
        assert during.total == before.total
    assert device.memory_info().held == before.held


@pytest.mark.host_only
def test_memory_info_counts_every_byte(device: Any, device_resource: Any) -> None:
    before = device.memory_info().free
    with device_resource.allocate(8 * MIB):
        assert device.memory_info().free <= before - 8 * MIB
    assert device.memory_info().free == before


def test_memory_is_on_the_device_that_was_named(pm: ModuleType, two_devices: tuple[Any, Any]) -> None:
    first, second = two_devices
    first.set_current()
    with pm.DeviceMemoryResource(second) as resource, allocate(resource, MIB) as buf:
        assert resource.device_id == buf.device_id == second.ordinal
        assert buf.device == second
        assert pm.pointer_info(buf).device_id == second.ordinal


def test_peer_access(pm: ModuleType, two_devices: tuple[Any, Any]) -> None:
    first, second = two_devices
    assert not first.can_access_peer(first)
    if not first.can_access_peer(second):
        pytest.skip("these two devices cannot reach each other")
    first.enable_peer_access(second)
    try:
        with pytest.raises(portamem.Error, match="PeerAccessAlreadyEnabled") as caught:
            first.enable_peer_access(second)
        assert caught.value.code == 704
    finally:
        first.disable_peer_access(second)
    with pytest.raises(portamem.Error, match="PeerAccessNotEnabled") as caught:
        first.disable_peer_access(second)
    assert caught.value.code == 705


def test_stream_priorities(device: Any) -> None:
    least, greatest = device.stream_priority_range
    assert greatest <= least


def test_default_streams(device: Any) -> None:
    assert device.default_stream.is_default
    assert device.per_thread_stream.is_default
    assert device.default_stream == device.default_stream
    assert device.default_stream != device.per_thread_stream
    assert device.default_stream.device == device
    assert not device.default_stream.is_nonblocking


def test_versions(pm: ModuleType) -> None:
    assert pm.compiled_version() > 0
    assert pm.runtime_version() > 0
    assert pm.driver_version() > 0
    assert re.match(r"\d+\.\d+", pm.version_text(pm.runtime_version()))


def test_probe_never_raises(pm: ModuleType) -> None:
    count, code, text = pm.probe()
    assert (count, code) == (pm.device_count(), 0)
    assert isinstance(text, str)
