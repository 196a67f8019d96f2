# SPDX-License-Identifier: MIT
"""PrefetchAdaptor: memory that is on its way to where it will be used from the start."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.memory import allocate, pattern, read_back, write

import portamem


@pytest.fixture
def managed(device: Any, make_resource: Any) -> Any:
    if not device.capabilities.concurrent_managed_access:
        pytest.skip("managed memory of this device does not move on demand")
    return make_resource("managed")


def test_managed_memory_goes_to_the_streams_device(pm: Any, managed: Any, device: Any, stream: Any) -> None:
    resource = pm.PrefetchAdaptor(managed)
    assert isinstance(resource, portamem.PrefetchAdaptor)
    assert (resource.location, resource.kind) == (None, "managed")
    with resource.allocate(8192, stream=stream) as buffer:
        stream.synchronize()
        assert buffer.range_attribute("last_prefetch_location") == device.ordinal
        write(pm, buffer, pattern(8192, 1))
        assert read_back(pm, buffer) == pattern(8192, 1)
    with pm.PrefetchAdaptor(managed, "host").allocate(8192, stream=stream) as buffer:
        stream.synchronize()
        assert buffer.range_attribute("last_prefetch_location") == "host"
    assert resource.allocate(0).nbytes == 0


def test_locations(pm: Any, managed: Any, device: Any) -> None:
    assert pm.PrefetchAdaptor(managed, device).location == device.ordinal
    assert pm.PrefetchAdaptor(managed, "host").location == "host"
    assert pm.PrefetchAdaptor(managed, "host_numa:1").location == "host_numa:1"
    for wrong in ("moon", 4711, -7):
        with pytest.raises(ValueError, match=r"location|device"):
            pm.PrefetchAdaptor(managed, wrong)


def test_blocks_of_prefetched_chunks(pm: Any, managed: Any, device: Any) -> None:
    blocks = pm.FixedSizeMemoryResource(pm.PrefetchAdaptor(managed), 4096, blocks_per_chunk=4)
    with blocks, allocate(blocks, 4096) as buffer:
        device.synchronize()
        assert buffer.range_attribute("last_prefetch_location") == device.ordinal


def test_memory_that_does_not_move_is_refused(pm: Any, resource: Any) -> None:
    if resource.kind == "managed":
        pytest.skip("this memory moves")
    if resource.kind == "system" and resource.is_device_accessible:
        with pm.PrefetchAdaptor(resource).allocate(4096) as buffer:
            assert buffer.range_attribute("last_prefetch_location") == 0
            write(pm, buffer, pattern(4096, 2))
            assert read_back(pm, buffer) == pattern(4096, 2)
        return
    with pytest.raises(ValueError, match=f"the upstream gives {resource.kind} memory"):
        pm.PrefetchAdaptor(resource)
