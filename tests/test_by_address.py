# SPDX-License-Identifier: MIT
"""Memory that is known by its address alone: what of it is Python's own. The contract has the rest (FREE-20)."""

from __future__ import annotations

import gc
import threading
from types import ModuleType
from typing import Any

import pytest
from helpers.process import run_python

import portamem

SIZES = (1, 1000, 70_000, 5 << 20)


def functions_over(pm: ModuleType, device: Any, pool: Any) -> Any:
    """A resource by functions that take its memory of another."""

    def allocate(nbytes: int, stream: Any) -> int:
        return int(pool.allocate(nbytes, stream=stream).release())

    def deallocate(ptr: int, nbytes: int, stream: Any) -> None:
        pool.deallocate(ptr, nbytes, stream=stream)

    return pm.CallbackMemoryResource(allocate, deallocate, kind="async", device=device)


def test_the_plain_names_are_the_backends(pm: ModuleType) -> None:
    assert {"resource_of", "size_of", "deallocate"} <= set(dir(portamem))
    assert portamem.backend != pm.backend or portamem.resource_of is pm.resource_of


def test_buffers_views_and_registrations_are_addresses(pm: ModuleType, device: Any) -> None:
    with pm.PoolMemoryResource(pm.DeviceMemoryResource(device)) as pool:
        with pm.empty(100, "int32", resource=pool) as view:
            for known in (view, view.buffer, view.handle):
                assert pm.resource_of(known) is pool
                assert pm.size_of(known) == 400
                assert pm.pointer_info(known).resource is pool
            part = view[10:]
            assert pm.resource_of(part) is None
            assert pm.size_of(part) is None
            part.close()
        with pytest.raises(ValueError, match="closed"):
            pm.resource_of(view)
    with pm.HostRegistration(bytearray(1 << 16)) as registered:
        assert pm.resource_of(registered) is None
        assert pm.pointer_info(registered).block_base is None


@pytest.mark.parametrize("ask", ["resource_of", "size_of", "deallocate"])
def test_what_is_no_address_is_refused(pm: ModuleType, ask: str) -> None:
    for wrong in (-1, 1 << 64):
        with pytest.raises(ValueError, match="address"):
            getattr(pm, ask)(wrong)
    for strange in ("0", 1.5, None):
        with pytest.raises(TypeError):
            getattr(pm, ask)(strange)
    with pytest.raises(TypeError):
        getattr(pm, ask)()


def test_a_resource_without_a_python_object_gets_one_of_its_class(pm: ModuleType, device: Any) -> None:
    buf = pm.PoolMemoryResource(pm.DeviceMemoryResource(device)).allocate(1000, stream=device.default_stream)
    gc.collect()
    found = pm.resource_of(buf)
    assert type(found) is pm.PoolMemoryResource
    assert found is buf.resource
    buf.close()


def test_pointer_info_keeps_the_resource(pm: ModuleType, device: Any) -> None:
    stream = device.default_stream
    address = pm.PoolMemoryResource(pm.DeviceMemoryResource(device)).allocate(1000, stream=stream)
    info = pm.pointer_info(address)
    address = address.release()
    gc.collect()
    assert pm.size_of(address) == 1000
    info.resource.deallocate(address, stream=stream)
    assert info.resource.live_buffers == 0
    assert (info.block_base, info.block_nbytes) == (address, 1000)  # a record of what was so


def test_functions_of_the_program(pm: ModuleType, device: Any) -> None:
    """They know the memory that they gave, and so does the pool that they took it of."""
    stream = device.default_stream
    with pm.PoolMemoryResource(pm.DeviceMemoryResource(device)) as pool, functions_over(pm, device, pool) as own:
        for nbytes in SIZES:
            with own.allocate(nbytes, stream=stream) as buf:
                assert pm.resource_of(buf) is own
                assert pm.size_of(buf) == nbytes
            with pool.allocate(nbytes, stream=stream) as buf:
                assert pm.resource_of(buf) is pool
        with pm.PoolMemoryResource(own) as outer, outer.allocate(1000, stream=stream) as buf:
            assert pm.resource_of(buf) is outer


def test_look_ups_beside_resources_that_end(pm: ModuleType, device: Any) -> None:
    """The last reference to a resource may go in a look-up, on any thread, with Python's lock held or not."""
    ends = threading.Event()
    shown: list[int] = [0]
    failed: list[BaseException] = []

    def look() -> None:
        try:
            while not ends.is_set():
                pm.resource_of(shown[0])
                pm.size_of(shown[0])
                pm.pointer_info(0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    stream = device.default_stream
    for i in range(60):
        pool = pm.PoolMemoryResource(pm.DeviceMemoryResource(device))
        resource = (pool, pm.StatisticsAdaptor(pool), functions_over(pm, device, pool))[i % 3]
        with resource.allocate(1000, stream=stream) as buf:
            shown[0] = buf.handle
            assert pm.resource_of(buf) is resource
        del resource, pool, buf
    ends.set()
    for thread in threads:
        thread.join()
    assert not failed


SETTING = """
import os
import portamem
import {backend} as pm
pool = pm.PoolMemoryResource(pm.DeviceMemoryResource())
stream = pm.Device(0).default_stream
address = pool.allocate(1000, stream=stream).release()
assert pm.resource_of(address) is pool
assert pm.size_of(address) == 1000
info = pm.pointer_info(address)
assert (info.block_base, info.block_nbytes, info.resource) == (address, 1000, pool)
with pm.StatisticsAdaptor(pool) as counts, counts.allocate(3000, stream=stream) as buf:
    assert pm.resource_of(buf) is counts
    assert pm.size_of(buf) == 3000
pool.deallocate(address, stream=stream)
assert pm.resource_of(address) is None
assert pm.size_of(address) is None
"""


@pytest.mark.parametrize("setting", [{"PORTAMEM_DEBUG": "1"}, {"PORTAMEM_POOL": "off"}, {"PORTAMEM_HOST_GUARD": "1"}])
def test_under_each_setting(pm: ModuleType, setting: dict[str, str]) -> None:
    ended = run_python(SETTING.format(backend=f"portamem.{pm.backend}"), **setting)
    assert ended.returncode == 0, ended.stderr
