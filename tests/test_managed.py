"""Managed memory: shared contents, prefetch, advice, range attributes, attachment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from helpers.memory import MIB, pattern, read_back

import portamem
from portamem.enums import MemoryAdvice


@pytest.fixture
def managed(make_resource: Callable[[str], Any]) -> Iterator[Any]:
    with make_resource("managed").allocate(MIB) as buf:
        yield buf


def test_one_address_for_host_and_device(pm: ModuleType, managed: Any) -> None:
    data = pattern(MIB)
    with memoryview(managed) as host:
        host[:] = data
        assert read_back(pm, managed) == data
        managed.fill(1)
        assert bytes(host) == b"\x01" * MIB
    assert managed.is_host_accessible
    assert managed.is_device_accessible
    assert pm.pointer_info(managed).kind == "managed"


@pytest.mark.parametrize("where", ["host", "device", "ordinal"])
@pytest.mark.parametrize("on_stream", [False, True], ids=["blocking", "stream"])
def test_prefetch_keeps_the_contents(
    pm: ModuleType, device: Any, stream: Any, managed: Any, where: str, on_stream: bool
) -> None:
    data = pattern(MIB)
    pm.copy(managed, data)
    location = {"host": "host", "device": device, "ordinal": 0}[where]
    done = managed.prefetch(location, stream=stream if on_stream else None)
    if on_stream:
        done.synchronize()
    else:
        assert done is None
    assert read_back(pm, managed) == data


def test_the_last_prefetch_is_remembered(device: Any, managed: Any) -> None:
    if device.capabilities.managed_mode != "migrating":
        pytest.skip("managed memory does not migrate here")
    managed.prefetch(device)
    assert managed.range_attribute("last_prefetch_location") == device.ordinal
    managed.prefetch("host")
    assert managed.range_attribute("last_prefetch_location") == "host"


def test_advice_and_its_undo(device: Any, managed: Any) -> None:
    if device.capabilities.managed_mode != "migrating":
        pytest.skip("advice has no effect where managed memory does not migrate")
    assert managed.range_attribute("read_mostly") is False
    managed.advise(MemoryAdvice.READ_MOSTLY)
    assert managed.range_attribute("read_mostly") is True
    managed.advise(MemoryAdvice.UNSET_READ_MOSTLY)
    assert managed.range_attribute("read_mostly") is False

    managed.advise(MemoryAdvice.PREFERRED_LOCATION, device)
    assert managed.range_attribute("preferred_location") == device.ordinal
    managed.advise(MemoryAdvice.PREFERRED_LOCATION, "host")
    assert managed.range_attribute("preferred_location") == "host"
    managed.advise(MemoryAdvice.UNSET_PREFERRED_LOCATION)
    assert managed.range_attribute("preferred_location") is None

    managed.advise(MemoryAdvice.ACCESSED_BY, device)
    assert list(managed.range_attribute("accessed_by")) == [device.ordinal]
    managed.advise(MemoryAdvice.UNSET_ACCESSED_BY, device)
    assert list(managed.range_attribute("accessed_by")) == []


def test_an_attribute_is_of_the_whole_range(device: Any, managed: Any) -> None:
    if device.capabilities.managed_mode != "migrating":
        pytest.skip("advice has no effect where managed memory does not migrate")
    with managed[: MIB // 2] as half:
        half.advise(MemoryAdvice.READ_MOSTLY)
        assert half.range_attribute("read_mostly") is True
    assert managed.range_attribute("read_mostly") is False


def test_coarse_grain_advice_is_amds_own(pm: ModuleType, device: Any, managed: Any) -> None:
    if pm.backend == "hip" and not device.arch.startswith("sm_"):
        managed.advise(MemoryAdvice.COARSE_GRAIN, device)
        managed.advise(MemoryAdvice.UNSET_COARSE_GRAIN, device)
        return
    with pytest.raises(portamem.Error, match="NotSupported") as caught:
        managed.advise(MemoryAdvice.COARSE_GRAIN, device)
    assert caught.value.code == 801


@pytest.mark.parametrize(
    ("advice", "location", "message"),
    [
        ("read_often", None, "read_mostly"),
        (MemoryAdvice.PREFERRED_LOCATION, None, "location"),
        (MemoryAdvice.PREFERRED_LOCATION, "moon", "host"),
        (MemoryAdvice.ACCESSED_BY, 99, r"99|device"),
    ],
)
def test_advice_that_is_none(managed: Any, advice: str, location: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        managed.advise(advice, location)


def test_unknown_attribute(managed: Any) -> None:
    with pytest.raises(ValueError, match="read_mostly"):
        managed.range_attribute("colour")


@pytest.mark.parametrize(
    ("location", "error"),
    [("moon", ValueError), (99, ValueError), (2**70, ValueError), (None, TypeError), (1.5, TypeError)],
)
def test_prefetch_to_nowhere(managed: Any, location: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"(?i)host|device|location"):
        managed.prefetch(location)


@pytest.mark.parametrize("kind", ["device", "pinned"])
def test_prefetch_and_advice_are_for_managed_memory(
    device: Any, make_resource: Callable[[str], Any], kind: str
) -> None:
    with make_resource(kind).allocate(4096) as buf:
        for call in (
            lambda: buf.prefetch(device),
            lambda: buf.advise(MemoryAdvice.READ_MOSTLY),
            lambda: buf.range_attribute("read_mostly"),
        ):
            with pytest.raises((ValueError, portamem.Error), match=r"managed|InvalidValue"):
                call()
        buf.fill(1)


def test_attached_to_the_host(pm: ModuleType, device: Any, managed: Any) -> None:
    with pm.ManagedMemoryResource(device, attach="host") as resource, resource.allocate(4096) as buf:
        memoryview(buf)[:] = b"\x02" * 4096
        assert bytes(memoryview(buf)) == b"\x02" * 4096
    with pytest.raises(ValueError, match="global"):
        pm.ManagedMemoryResource(device, attach="everyone")


def test_an_empty_prefetch(make_resource: Callable[[str], Any], device: Any, stream: Any) -> None:
    with make_resource("managed").allocate(0) as nothing:
        nothing.prefetch(device, stream=stream).synchronize()
