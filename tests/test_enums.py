"""The named strings of portamem.enums are those that every backend takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import portamem
from portamem import enums


def accepted(call: Callable[[], object]) -> bool:
    """True where a call knew its word: the runtime may still refuse what it means."""
    try:
        call()
    except portamem.Error:
        return True
    except ValueError as unknown:
        return "not '" not in str(unknown)
    return True


@pytest.mark.parametrize("advice", enums.MemoryAdvice)
def test_advice(make_resource: Callable[[str], Any], device: Any, advice: enums.MemoryAdvice) -> None:
    with make_resource("managed").allocate(4096) as buf:
        assert accepted(lambda: buf.advise(advice, device))
        assert accepted(lambda: buf.advise(str(advice), device))


@pytest.mark.parametrize("name", enums.RangeAttribute)
def test_range_attributes(make_resource: Callable[[str], Any], name: enums.RangeAttribute) -> None:
    with make_resource("managed").allocate(4096) as buf:
        assert accepted(lambda: buf.range_attribute(name))


@pytest.mark.parametrize("limit", enums.Limit)
def test_limits(device: Any, limit: enums.Limit) -> None:
    assert accepted(lambda: device.limit(limit))


@pytest.mark.parametrize("mode", enums.CaptureMode)
def test_capture_modes(stream: Any, mode: enums.CaptureMode) -> None:
    stream.begin_capture(mode)
    assert stream.capture_status == enums.CaptureStatus.ACTIVE
    stream.end_capture()
    assert stream.capture_status == enums.CaptureStatus.NONE


@pytest.mark.parametrize("purpose", enums.Purpose)
def test_purposes(pm: ModuleType, device: Any, purpose: enums.Purpose) -> None:
    assert pm.recommend(purpose, device).kind == pm.recommend(str(purpose)).kind


@pytest.mark.parametrize("attach", enums.Attach)
def test_attachment(pm: ModuleType, device: Any, attach: enums.Attach) -> None:
    pm.ManagedMemoryResource(device, attach=attach).close()


@pytest.mark.parametrize("coherence", enums.Coherence)
def test_coherence(pm: ModuleType, device: Any, coherence: enums.Coherence) -> None:
    """Every one is for device memory, for pinned memory, or for both."""
    taken = []
    for make in (pm.DeviceMemoryResource, pm.PinnedMemoryResource):
        try:
            make(device, coherence=coherence).close()
            taken.append(make)
        except ValueError as refused:
            assert "coherence" in str(refused)  # noqa: PT017
    assert taken


@pytest.mark.parametrize("access", enums.Access)
def test_access(pool: Any, device: Any, access: enums.Access) -> None:
    assert accepted(lambda: pool.set_access(device, access))


def test_what_is_given_is_a_member(pm: ModuleType, device: Any, resource: Any, pool: Any) -> None:
    able = device.capabilities
    enums.ManagedMode(able.managed_mode)
    enums.MallocHeapKind(able.malloc_heap_kind)
    for types in (able.pool_handle_types, able.virtual_memory_handle_types):
        assert all(enums.HandleType(each) for each in types or ())
    before = pm.set_quirk("tiny_pool_allocation", True)
    try:
        assert [enums.QuirkPolicy(quirk.policy) for quirk in device.quirks]
    finally:
        pm.set_quirk("tiny_pool_allocation", before)
    enums.MemoryKind(resource.kind)
    enums.Access(pool.access(device))
    enums.PointerKind(pm.pointer_info(0).kind)
